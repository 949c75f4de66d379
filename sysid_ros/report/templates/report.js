// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Draws the signals of the report with uPlot. The data are in #curves; every number is in the page's tables too.
'use strict';
(function () {
  const HEIGHTS = { curves: 150, strip: 44, residual: 84, memory: 76 };
  const SIGMAS = 2;
  // 95 % of the autocorrelations of white noise are within so many standard errors of 0.
  const WHITE = 1.96;
  const AXIS = 48;
  const DIGITS = 4;
  const GAP = -32768;

  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const elements = Array.from(document.querySelectorAll('.plot'));
  const groups = new Map(Array.from(document.querySelectorAll('.grid'), (grid, key) => [grid, { key: `sequence ${key}`, zoom: null, extent: null }]));
  const shown = { measured: true, nominal: true, fitted: true, command: true, band: true };
  const charts = new Map();
  const { plots, shared } = JSON.parse(document.getElementById('curves').textContent);

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

  function unpacked([middle, step, text]) {
    const counts = new Int16Array(Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)).buffer);
    return Array.from(counts, (count) => (count === GAP ? null : middle + step * count));
  }

  function written(value) {
    if (value === null || value === undefined) return '–';
    if (value === 0) return '0';
    const power = Math.floor(Math.log10(Math.abs(value)));
    const text = power < -4 || power > 5 ? value.toExponential(2).replace('e', '×10^') : value.toFixed(Math.max(DIGITS - 1 - power, 0));
    return text.replace(/-/g, '−');
  }
  // As short as the ticks of an axis allow.
  const tick = (value) => (value === null ? '' : written(value).replace(/(\.\d*?)0+(?=×|$)/, '$1').replace(/\.(?=×|$)/, ''));
  const instant = (seconds) => (seconds < 0.1 ? `${tick(Number((1e3 * seconds).toPrecision(2)))} ms` : `${tick(Number(seconds.toPrecision(2)))} s`);

  const axis = (extra) => ({
    stroke: color('soft'), font: `11px ${getComputedStyle(document.body).fontFamily}`, gap: 4,
    grid: { stroke: color('line'), width: 1 }, ticks: { show: false }, ...extra,
  });
  const upright = (extra) => axis({ size: AXIS, space: 20, values: (_, splits) => splits.map(tick), ...extra });
  const level = (extra) => axis({ size: 22, space: 56, ...extra });
  const seconds = (visible) => level({ size: visible ? 22 : 6, values: (_, splits) => splits.map((t) => (visible ? `${tick(t)} s` : '')) });
  const line = (curve, width, extra) => ({ curve, stroke: color(curve), width, show: shown[curve], points: { show: false }, ...extra });

  // Where 95 % of white noise would be: the area of a chart within so much of zero.
  function shade(u, bound) {
    if (!shown.band) return;
    const { left, top, width, height } = u.bbox;
    const inside = (value) => Math.min(Math.max(u.valToPos(value, 'y', true), top), top + height);
    u.ctx.fillStyle = color('band');
    u.ctx.fillRect(left, inside(bound), width, inside(-bound) - inside(bound));
  }

  // A chart with what it says of itself, and of the place that is pointed at.
  function chart(element, kind, title, said, options, values) {
    const box = document.createElement('div');
    const label = document.createElement('div');
    label.className = 'what';
    label.textContent = title;
    box.className = `chart-${kind}`;
    box.append(label);
    element.append(box);
    const own = new uPlot({
      width: Math.max(element.clientWidth, 50),
      height: HEIGHTS[kind],
      legend: { show: false },
      padding: [6, 8, 0, 0],
      ...options,
      cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false }, ...options.cursor },
      hooks: {
        ...options.hooks,
        setCursor: [(u) => {
          const { idx } = u.cursor;
          label.textContent = idx === null || idx === undefined ? title : said(idx);
        }],
      },
    }, values, box);
    box.querySelectorAll('canvas').forEach((canvas) => canvas.setAttribute('aria-hidden', 'true'));
    return { box, kind, own, curves: options.series.map((series) => series.curve) };
  }

  // What all charts over time of one sequence share: their cursor, and the stretch that is shown.
  function overTime(group, range) {
    return {
      scales: {
        x: { time: false, auto: false, range: () => group.zoom || group.extent },
        y: { range: range || ((_, low, high) => (low === null ? [-1, 1] : uPlot.rangeNum(low, high, 0.08, true))) },
      },
      cursor: {
        sync: { key: group.key, scales: ['x', null], filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' } },
        drag: { x: true, y: false, dist: 5, setScale: false },
        bind: { dblclick: () => () => zoom(group, null) },
      },
      hooks: {
        setSelect: [(u) => {
          const { left, width } = u.select;
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          if (width > 0) zoom(group, [u.posToVal(left, 'x'), u.posToVal(left + width, 'x')]);
        }],
      },
    };
  }

  function zoom(group, range) {
    group.zoom = range;
    charts.forEach((drawn) => drawn.forEach(({ own, timed }) => {
      if (timed === group) {
        const [min, max] = range || group.extent;
        own.setScale('x', { min, max });
      }
    }));
  }

  // From the first to the last sample of all signals of a sequence.
  function extent(grid) {
    const clocks = new Set(Array.from(grid.querySelectorAll('.plot'), (each) => plots[each.dataset.plot].times));
    // Rounded, so that the axis has a tick at 0.
    const ends = Array.from(clocks, (place) => unpacked(shared[place])).flatMap((times) => [times[0], times[times.length - 1]])
      .filter((time) => time !== undefined).map((time) => Math.round(1e3 * time) / 1e3 || 0);
    return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  }

  function draw(element) {
    erase(element);
    const grid = element.closest('.grid');
    const group = groups.get(grid);
    group.extent = group.extent || extent(grid);
    const plot = plots[element.dataset.plot];
    const times = unpacked(shared[plot.times]);
    const [measured, nominal, fitted] = [plot.measured, plot.nominal, plot.fitted].map(unpacked);
    const command = plot.command === null ? null : unpacked(shared[plot.command]);
    const [factor, residualUnit] = plot.residualUnit;
    const residual = unpacked(plot.residual).map((value) => (value === null ? null : factor * value));
    const unit = plot.unit ? ` ${plot.unit}` : '';
    const stepped = uPlot.paths.stepped({ align: 1 });
    const made = [];
    const timed = (...given) => made.push({ ...chart(element, ...given), timed: group });

    const series = [{}];
    const values = [times];
    const bands = [];
    const add = (curve, own, width, extra) => {
      series.push(line(curve, width, extra));
      values.push(own);
    };
    if (plot.band) {
      const band = unpacked(plot.band);
      [1, -1].forEach((sign) => add('band', fitted.map((value, i) => (value === null || band[i] === null ? null : value + sign * band[i])), 0));
      bands.push({ series: [1, 2], fill: color('band') });
    }
    add('measured', measured, 3);
    const inside = command && !plot.strip;
    if (inside) add('command', command, 1, { paths: stepped });
    add('nominal', nominal, 1.3, { dash: [5, 3] });
    add('fitted', fitted, 1.3);
    const [lowest, highest] = plot.range || [-Infinity, Infinity];
    const range = (_, low, high) => {
      if (low === null) return [-1, 1];
      const [bottom, top] = uPlot.rangeNum(low, high, 0.08, true);
      return [Math.max(bottom, lowest), Math.min(top, highest)];
    };
    const told = (value) => (value < lowest || value > highest ? 'far off' : written(value));
    const said = Object.entries({ measured, nominal, fitted });
    timed('curves', `curves${unit && ` in${unit}`}`, (i) => said.filter(([curve]) => shown[curve]).map(([curve, own]) => `${curve} ${told(own[i])}`).join('  '), {
      ...overTime(group, range), series, bands, axes: [seconds(false), upright()],
    }, values);
    if (command && plot.strip) {
      const strip = plot.commandUnit ? ` ${plot.commandUnit}` : '';
      timed('strip', `command${strip && ` in${strip}`}`, (i) => `command ${written(command[i])}${strip}`, {
        ...overTime(group), series: [{}, line('command', 1, { paths: stepped, show: true })],
        axes: [seconds(false), upright({ space: 16 })],
      }, [times, command]);
    }
    const over = overTime(group);
    const sigma = plot.sigma === null ? null : SIGMAS * factor * plot.sigma;
    const noisy = sigma === null ? '' : `, ± ${SIGMAS}σ of the noise`;
    const beside = (i) => (inside ? `, command ${written(command[i])}${unit}` : '');
    timed('residual', `measured − fitted${residualUnit && ` in ${residualUnit}`}${noisy}`, (i) => `at ${times[i].toFixed(3)} s: ${written(residual[i])} ${residualUnit}${beside(i)}`, {
      ...over, series: [{}, line('fitted', 1, { show: true })], axes: [seconds(true), upright()],
      hooks: { ...over.hooks, drawAxes: sigma === null ? [] : [(u) => shade(u, sigma)] },
    }, [times, residual]);
    if (plot.lags.length) made.push(drawMemory(element, plot));
    charts.set(element, made);
  }

  function drawMemory(element, { lags, autocorrelation, samples }) {
    const values = unpacked(autocorrelation);
    const bound = WHITE / Math.sqrt(samples);
    const places = lags.map((_, i) => i);
    const bottom = Math.min(-0.2, ...values);
    return chart(element, 'memory', 'its autocorrelation over lags (logarithmic)', (i) => `autocorrelation ${written(values[i])} after ${instant(lags[i])}`, {
      scales: { x: { time: false, range: [-0.7, lags.length - 0.3] }, y: { range: [Math.max(bottom - 0.1, -1), 1] } },
      series: [{}, { ...line('fitted', 0, { show: true }), fill: color('fitted'), paths: uPlot.paths.bars({ size: [0.6, 8] }) }],
      axes: [
        level({ splits: () => places.filter((i) => i % Math.ceil(lags.length / 5) === 0), values: (_, splits) => splits.map((i) => instant(lags[i])) }),
        upright({ splits: () => [0, 1] }),
      ],
      hooks: { drawAxes: [(u) => shade(u, bound)] },
    }, [places, values]);
  }

  function erase(element) {
    (charts.get(element) || []).forEach(({ own, box }) => {
      own.destroy();
      box.remove();
    });
    charts.delete(element);
  }

  // What is near to what is in sight is drawn, once.
  const watch = new IntersectionObserver((entries) => entries.forEach(({ isIntersecting, target }) => {
    if (!isIntersecting) return;
    watch.unobserve(target);
    if (!charts.has(target)) draw(target);
  }), { rootMargin: '300px 0px' });
  elements.forEach((element) => watch.observe(element));

  document.querySelectorAll('button[data-curve]').forEach((button) => button.addEventListener('click', () => {
    const { curve } = button.dataset;
    shown[curve] = !shown[curve];
    button.setAttribute('aria-pressed', String(shown[curve]));
    document.documentElement.classList.toggle(`without-${curve}`, !shown[curve]);
    charts.forEach((drawn) => drawn.forEach(({ own, curves, kind }) => {
      if (kind === 'curves') curves.forEach((each, i) => { if (each === curve) own.setSeries(i, { show: shown[curve] }); });
      else if (curve === 'band') own.redraw(false);
    }));
  }));
  document.querySelectorAll('button[data-open]').forEach((button) => button.addEventListener('click', () => {
    document.querySelectorAll('details:has(.grid)').forEach((section) => { section.open = button.dataset.open === 'true'; });
  }));

  let timer = 0;
  window.addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(() => charts.forEach((drawn, element) => drawn.forEach(({ own, kind }) => {
      own.setSize({ width: Math.max(element.clientWidth, 50), height: HEIGHTS[kind] });
    })), 150);
  });
  dark.addEventListener('change', () => Array.from(charts.keys()).forEach(draw));
  // Paper has everything.
  window.addEventListener('beforeprint', () => {
    document.querySelectorAll('details').forEach((section) => { section.open = true; });
    elements.filter((element) => !charts.has(element)).forEach(draw);
  });
}());
