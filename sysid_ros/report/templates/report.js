// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Draws the plots of the report. The data are in #curves; every number is in the page's tables too.
'use strict';
(function () {
  const PALETTES = {
    light: { measured: '#9aa0a9', before: '#c2570c', after: '#0b5cad', band: 'rgba(11,92,173,0.15)', ink: '#4a5058', grid: '#e4e6ea', card: '#ffffff' },
    dark: { measured: '#8b929c', before: '#f2a154', after: '#6cb6ff', band: 'rgba(108,182,255,0.2)', ink: '#b3bac4', grid: '#31363e', card: '#1b1e23' },
  };
  const PRINT_WIDTH = 320;
  const SCREEN_HEIGHT = 170;
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const coarse = window.matchMedia('(pointer: coarse)');
  const data = JSON.parse(document.getElementById('curves').textContent);
  const elements = Array.from(document.querySelectorAll('.plot'));
  const config = { displaylogo: false, displayModeBar: false, showTips: false, doubleClick: 'reset' };
  let printing = false;

  const palette = () => (dark.matches && !printing ? PALETTES.dark : PALETTES.light);

  function numbers(text) {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
    return new Float32Array(bytes.buffer);
  }
  const clocks = data.times.map(numbers);

  function axis(extra) {
    const c = palette();
    return Object.assign({
      gridcolor: c.grid, zeroline: false, linecolor: c.grid, showline: true, ticks: '',
      tickfont: { color: c.ink, size: 11 }, fixedrange: coarse.matches, automargin: true,
    }, extra);
  }

  function layout(element, extra) {
    const c = palette();
    return Object.assign({
      width: widthOf(element), height: Number(element.dataset.height || SCREEN_HEIGHT),
      margin: { l: 46, r: 8, t: 6, b: 24 }, showlegend: false,
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      font: { family: getComputedStyle(document.body).fontFamily, color: c.ink, size: 11 },
      hovermode: 'x unified', hoverlabel: { bgcolor: c.card, bordercolor: c.grid, font: { color: c.ink } },
      dragmode: coarse.matches ? false : 'zoom',
    }, extra);
  }

  // A plot in a closed section has no width of its own: it gets that of any open one in a like
  // grid, and the grid's when its section is opened.
  function widthOf(element) {
    if (printing) return element.dataset.plot === 'trace' ? 2 * PRINT_WIDTH : PRINT_WIDTH;
    if (element.clientWidth > 0) return element.clientWidth;
    const open = elements.find((other) => other.dataset.plot !== 'trace' && other.clientWidth > 0);
    return open ? open.clientWidth : PRINT_WIDTH;
  }

  function signal(element) {
    const c = palette();
    const plot = data.plots[Number(element.dataset.plot)];
    const x = clocks[plot.times];
    const line = (name, y, style) => ({
      type: 'scatter', mode: 'lines', name, x, y, line: style, connectgaps: false, hovertemplate: '%{y:.5~g}',
    });
    const edge = (values, style) => ({
      type: 'scatter', mode: 'lines', x, y: numbers(values), line: { width: 0 }, hoverinfo: 'skip', ...style,
    });
    const [low, high] = plot.band;
    return {
      traces: [
        ...(low ? [edge(low, {}), edge(high, { fill: 'tonexty', fillcolor: c.band })] : []),
        line('measured', numbers(plot.measured), { color: c.measured, width: 3 }),
        line('before', numbers(plot.before), { color: c.before, width: 1.3, dash: '5px,3px' }),
        line('after', numbers(plot.after), { color: c.after, width: 1.3 }),
      ],
      layout: layout(element, {
        xaxis: axis({ ticksuffix: ' s', hoverformat: '.3f', nticks: 6, showticksuffix: 'all' }),
        yaxis: axis(plot.range ? { nticks: 5, range: plot.range } : { nticks: 5 }),
      }),
    };
  }

  function trace(element) {
    const c = palette();
    const cost = numbers(data.trace.cost);
    const positive = cost.some((value) => value > 0);
    return {
      traces: [{
        type: 'scatter', mode: 'lines+markers', name: 'cost', x: data.trace.iteration, y: cost,
        line: { color: c.after, width: 1.8 }, marker: { color: c.after, size: 6 }, hovertemplate: '%{y:.6~g}',
      }],
      layout: layout(element, {
        margin: { l: 60, r: 10, t: 8, b: 40 },
        xaxis: axis({ title: { text: 'iteration' }, tickformat: 'd', nticks: 10 }),
        yaxis: axis({ title: { text: 'cost' }, type: positive ? 'log' : 'linear', nticks: 6, exponentformat: 'power' }),
      }),
    };
  }

  const describe = (element) => (element.dataset.plot === 'trace' ? trace(element) : signal(element));

  function draw(element) {
    const figure = describe(element);
    return Plotly.newPlot(element, figure.traces, figure.layout, config);
  }

  function redraw(element) {
    if (!element.classList.contains('js-plotly-plot')) return draw(element);
    const figure = describe(element);
    return Plotly.react(element, figure.traces, figure.layout, config);
  }

  function fit(element) {
    const drawn = element.classList.contains('js-plotly-plot');
    const width = widthOf(element);
    if (drawn && Math.abs(element._fullLayout.width - width) > 1) Plotly.relayout(element, { width });
  }

  // Zooming one signal in time zooms all signals of that sequence.
  function follow(element) {
    if (element.dataset.plot === 'trace') return;
    const others = Array.from(element.closest('.grid').querySelectorAll('.plot')).filter((e) => e !== element);
    element.on('plotly_relayout', (change) => {
      let update = null;
      if ('xaxis.range[0]' in change) update = { 'xaxis.range': [change['xaxis.range[0]'], change['xaxis.range[1]']] };
      if (change['xaxis.autorange']) update = { 'xaxis.autorange': true };
      if (update) others.forEach((other) => { if (other._fullLayout) Plotly.relayout(other, update); });
    });
  }

  // One plot per task, what is in sight first, so that the page can be read while it draws.
  async function drawAll() {
    const visible = (element) => element.clientWidth > 0;
    const queue = elements.filter(visible).concat(elements.filter((element) => !visible(element)));
    for (const element of queue) {
      if (!element.classList.contains('js-plotly-plot')) {
        await draw(element);
        follow(element);
        await new Promise((resolve) => { setTimeout(resolve, 0); });
      }
    }
    document.documentElement.dataset.drawn = String(queue.length);
  }

  const sections = Array.from(document.querySelectorAll('details.sequence'));
  sections.forEach((section) => section.addEventListener('toggle', () => {
    if (section.open) section.querySelectorAll('.plot').forEach(fit);
  }));
  document.querySelectorAll('button[data-open]').forEach((button) => button.addEventListener('click', () => {
    sections.forEach((section) => { section.open = button.dataset.open === 'true'; });
  }));
  if (window.location.hash === '#all') document.querySelectorAll('details').forEach((d) => { d.open = true; });

  let timer = 0;
  window.addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (!printing) elements.forEach(fit); }, 150);
  });
  dark.addEventListener('change', () => elements.forEach(redraw));
  let closed = [];
  window.addEventListener('beforeprint', () => {
    printing = true;
    closed = Array.from(document.querySelectorAll('details:not([open])'));
    closed.forEach((section) => { section.open = true; });
    elements.forEach(redraw);
  });
  window.addEventListener('afterprint', () => {
    printing = false;
    closed.forEach((section) => { section.open = false; });
    elements.forEach(redraw);
  });
  drawAll();
}());
