// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Draws the plots of the report with uPlot. The data are in #curves; every number is in the page's tables too.
'use strict';
(function () {
  const PALETTES = {
    light: { measured: '#9aa0a9', nominal: '#c2570c', fitted: '#0b5cad', command: '#0b6b4f', band: 'rgba(11,92,173,0.15)', ink: '#4a5058', grid: '#e4e6ea' },
    dark: { measured: '#8b929c', nominal: '#f2a154', fitted: '#6cb6ff', command: '#6fd6ae', band: 'rgba(108,182,255,0.2)', ink: '#b3bac4', grid: '#31363e' },
  };
  const HEIGHTS = { curves: 150, strip: 44, residual: 84, memory: 76, trace: 240 };
  // Charts for paper are drawn at twice their size, and halved by the style sheet: a screen's dots are coarse there.
  const PAPER = { width: 320, scale: 2 };
  const SIGMAS = 2;
  // 95 % of the autocorrelations of white noise are within so many standard errors of 0.
  const WHITE = 1.96;
  const AXIS = 48;
  const DIGITS = 4;

  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const elements = Array.from(document.querySelectorAll('.plot'));
  const groups = new Map(Array.from(document.querySelectorAll('.grid'), (grid, key) => [grid, { key: `sequence ${key}`, zoom: null, extent: null }]));
  const shown = { measured: true, nominal: true, fitted: true, command: true, band: true };
  const charts = new Map();
  let printing = false;
  let loaded = null;

  const palette = () => (dark.matches && !printing ? PALETTES.dark : PALETTES.light);
  const size = () => (printing ? PAPER.scale : 1);
  const data = () => {
    loaded = loaded || JSON.parse(document.getElementById('curves').textContent);
    return loaded;
  };

  // The inverse of `packed` in signals.py.
  function unpacked([origin, step, order, bits, count, text]) {
    const bytes = atob(text);
    const sums = [0, 0, 0];
    let at = 0;
    const bit = () => {
      const found = (bytes.charCodeAt(Math.floor(at / 8)) >> (7 - (at % 8))) & 1;
      at += 1;
      return found;
    };
    return Array.from({ length: count }, () => {
      let more = bits;
      while (!bit()) more += 1;
      let code = 1;
      for (let i = 0; i < more; i += 1) code = 2 * code + bit();
      code -= 2 ** bits;
      if (code === 0) return null;
      sums[order] = code % 2 ? (code - 1) / 2 : -code / 2;
      for (let i = order; i > 0; i -= 1) sums[i - 1] += sums[i];
      return origin + step * sums[0];
    });
  }

  const combined = (one, other, sign) => one.map((value, i) => (value === null || other[i] === null ? null : value + sign * other[i]));

  function written(value) {
    if (value === null || value === undefined) return '–';
    if (value === 0) return '0';
    const power = Math.floor(Math.log10(Math.abs(value)));
    if (power < -4 || power > 5) {
      const [mantissa, exponent] = value.toExponential(2).split('e');
      return `${Number(mantissa)}×10${String(Number(exponent)).replace(/[-\d]/g, (c) => (c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]))}`.replace(/^-/, '−');
    }
    return value.toFixed(Math.max(DIGITS - 1 - power, 0)).replace(/^-/, '−');
  }
  // As short as the ticks of an axis allow.
  const tick = (value) => (value === null ? '' : written(value).replace(/(\.\d*?)0+(?=×|$)/, '$1').replace(/\.(?=×|$)/, ''));
  const instant = (seconds) => (seconds < 0.1 ? `${tick(Number((1e3 * seconds).toPrecision(2)))} ms` : `${tick(Number(seconds.toPrecision(2)))} s`);

  function axis(extra) {
    const c = palette();
    return {
      stroke: c.ink, font: `${11 * size()}px ${getComputedStyle(document.body).fontFamily}`, gap: 4 * size(),
      grid: { stroke: c.grid, width: size() }, ticks: { show: false }, ...extra,
    };
  }

  const upright = (extra) => axis({ size: AXIS * size(), space: 20 * size(), values: (_, splits) => splits.map(tick), ...extra });
  const level = (extra) => axis({ size: 22 * size(), space: 56 * size(), ...extra });
  const seconds = (visible) => level({ size: (visible ? 22 : 6) * size(), values: (_, splits) => splits.map((t) => (visible ? `${tick(t)} s` : '')) });

  const line = (curve, width, extra) => ({
    curve, stroke: palette()[curve], width: width * size(), show: shown[curve], points: { show: false }, ...extra,
  });

  // Where 95 % of white noise would be: the area of a chart within so much of zero.
  function shade(u, bound) {
    if (!shown.band) return;
    const { left, top, width, height } = u.bbox;
    const inside = (value) => Math.min(Math.max(u.valToPos(value, 'y', true), top), top + height);
    u.ctx.fillStyle = palette().band;
    u.ctx.fillRect(left, inside(bound), width, inside(-bound) - inside(bound));
  }

  const isSignal = (element) => element.dataset.plot !== 'trace';
  const widthOf = (element) => (printing ? PAPER.width * (isSignal(element) ? 1 : 2) : Math.max(element.clientWidth, 50));

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
      width: widthOf(element) * size(),
      height: HEIGHTS[kind] * size(),
      legend: { show: false },
      padding: [6 * size(), 8 * size(), 0, 0],
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
    const clocks = new Set(Array.from(grid.querySelectorAll('.plot'), (each) => data().plots[each.dataset.plot].times));
    // Rounded, so that the axis has a tick at 0.
    const ends = Array.from(clocks).flatMap((place) => unpacked(data().shared[place]).filter((_, i, all) => i === 0 || i === all.length - 1))
      .map((time) => Math.round(1e6 * time) / 1e6 || 0);
    return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  }

  function drawSignal(element) {
    const grid = element.closest('.grid');
    const group = groups.get(grid);
    group.extent = group.extent || extent(grid);
    const plot = data().plots[element.dataset.plot];
    const times = unpacked(data().shared[plot.times]);
    const fitted = unpacked(plot.fitted);
    const nominal = unpacked(plot.nominal);
    const left = unpacked(plot.left);
    const measured = plot.measured ? unpacked(plot.measured) : combined(fitted, left, 1);
    const command = plot.command === null ? null : unpacked(data().shared[plot.command]);
    const unit = plot.unit ? ` ${plot.unit}` : '';
    const [factor, leftUnit] = plot.leftUnit;
    const residual = left.map((value) => (value === null ? null : factor * value));
    const made = [];
    const timed = (...given) => made.push({ ...chart(element, ...given), timed: group });

    const series = [{}];
    const values = [times];
    const say = [];
    const bands = [];
    const add = (curve, own, width, extra) => {
      series.push(line(curve, width, extra));
      values.push(own);
      if (curve !== 'band') say.push([curve, own]);
    };
    if (plot.band) {
      const band = unpacked(plot.band);
      add('band', combined(fitted, band, 1), 0);
      add('band', combined(fitted, band, -1), 0);
      bands.push({ series: [1, 2], fill: palette().band });
    }
    add('measured', measured, 3);
    const inside = command && !plot.strip;
    if (inside) add('command', command, 1, { paths: uPlot.paths.stepped({ align: 1 }) });
    add('nominal', nominal, 1.3, { dash: [5 * size(), 3 * size()] });
    add('fitted', fitted, 1.3);
    const [lowest, highest] = plot.range || [-Infinity, Infinity];
    const range = (_, low, high) => {
      if (low === null) return [-1, 1];
      const [bottom, top] = uPlot.rangeNum(low, high, 0.08, true);
      return [Math.max(bottom, lowest), Math.min(top, highest)];
    };
    const told = (value) => (value < lowest || value > highest ? 'far off' : written(value));
    timed('curves', `curves${unit && ` in${unit}`}`, (i) => say.filter(([curve]) => shown[curve] && curve !== 'command').map(([curve, own]) => `${curve} ${told(own[i])}`).join('  '), {
      ...overTime(group, range), series, bands, axes: [seconds(false), upright()],
    }, values);
    if (command && plot.strip) {
      const strip = plot.commandUnit ? ` ${plot.commandUnit}` : '';
      timed('strip', `command${strip && ` in${strip}`}`, (i) => `command ${written(command[i])}${strip}`, {
        ...overTime(group), series: [{}, line('command', 1, { paths: uPlot.paths.stepped({ align: 1 }), show: true })],
        axes: [seconds(false), upright({ space: 16 * size() })],
      }, [times, command]);
    }
    const shared = overTime(group);
    const sigma = plot.sigma === null ? null : SIGMAS * factor * plot.sigma;
    const noisy = sigma === null ? '' : `, ± ${SIGMAS}σ of the noise`;
    const beside = (i) => (inside ? `, command ${written(command[i])}${unit}` : '');
    timed('residual', `measured − fitted${leftUnit && ` in ${leftUnit}`}${noisy}`, (i) => `at ${times[i].toFixed(3)} s: ${written(residual[i])} ${leftUnit}${beside(i)}`, {
      ...shared, series: [{}, line('fitted', 1, { show: true })], axes: [seconds(true), upright()],
      hooks: { ...shared.hooks, drawAxes: sigma === null ? [] : [(u) => shade(u, sigma)] },
    }, [times, residual]);
    if (data().shared[plot.lags].length) made.push(drawMemory(element, plot));
    return made;
  }

  function drawMemory(element, plot) {
    const lags = data().shared[plot.lags];
    const autocorrelation = unpacked(plot.autocorrelation);
    const bound = WHITE / Math.sqrt(plot.samples);
    const places = lags.map((_, i) => i);
    const bottom = Math.min(-0.2, ...autocorrelation);
    return chart(element, 'memory', 'its autocorrelation over lags (logarithmic)', (i) => `autocorrelation ${written(autocorrelation[i])} after ${instant(lags[i])}`, {
      scales: { x: { time: false, range: [-0.7, lags.length - 0.3] }, y: { range: [Math.max(bottom - 0.1, -1), 1] } },
      series: [{}, { ...line('fitted', 0, { show: true }), fill: palette().fitted, paths: uPlot.paths.bars({ size: [0.6, 8 * size()] }) }],
      axes: [
        level({ splits: () => places.filter((i) => i % Math.ceil(lags.length / 5) === 0), values: (_, splits) => splits.map((i) => instant(lags[i])) }),
        upright({ splits: () => [0, 1] }),
      ],
      hooks: { drawAxes: [(u) => shade(u, bound)] },
    }, [places, autocorrelation]);
  }

  // 1, 2 and 5 times powers of ten, or all digits where these are too few.
  function decades(low, high) {
    const ticks = (factors) => {
      const found = [];
      for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) found.push(...factors.map((factor) => factor * power));
      return found.filter((value) => low <= value && value <= high);
    };
    const few = ticks([1, 2, 5]);
    return few.length > 1 ? few : ticks([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  }

  function drawTrace(element) {
    const { iteration, cost } = data().trace;
    const logarithmic = cost.every((value) => value === null || value > 0);
    const c = palette();
    return [chart(element, 'trace', 'cost over the iterations', (i) => `iteration ${iteration[i]}: cost ${written(cost[i])}`, {
      scales: {
        x: { time: false, range: (_, first, last) => [first - 0.2, last + 0.2] },
        y: logarithmic ? { distr: 3, range: (_, low, high) => [low / 1.2, high * 1.2] } : {},
      },
      series: [{}, { stroke: c.fitted, width: 1.8 * size(), points: { show: true, size: 6 * size(), fill: c.fitted } }],
      axes: [
        level({ incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }),
        upright({ size: 60 * size(), ...(logarithmic ? { splits: (_, __, low, high) => decades(low, high), filter: (_, splits) => splits } : {}) }),
      ],
    }, [iteration, cost])];
  }

  function erase(element) {
    (charts.get(element) || []).forEach(({ own, box }) => {
      own.destroy();
      box.remove();
    });
    charts.delete(element);
  }

  function draw(element) {
    erase(element);
    charts.set(element, isSignal(element) ? drawSignal(element) : drawTrace(element));
  }

  // What is near to what is in sight is drawn, once.
  const watch = new IntersectionObserver((entries) => entries.forEach(({ isIntersecting, target }) => {
    if (!isIntersecting || printing) return;
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
  const sections = Array.from(document.querySelectorAll('details.sequence'));
  document.querySelectorAll('button[data-open]').forEach((button) => button.addEventListener('click', () => {
    sections.forEach((section) => { section.open = button.dataset.open === 'true'; });
  }));

  let timer = 0;
  let width = 0;
  window.addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (printing || window.innerWidth === width) return;
      width = window.innerWidth;
      charts.forEach((drawn, element) => drawn.forEach(({ own, kind }) => {
        own.setSize({ width: widthOf(element), height: HEIGHTS[kind] });
      }));
    }, 150);
  });
  dark.addEventListener('change', () => { if (!printing) Array.from(charts.keys()).forEach(draw); });
  let closed = [];
  window.addEventListener('beforeprint', () => {
    printing = true;
    closed = Array.from(document.querySelectorAll('details:not([open])'));
    closed.forEach((section) => { section.open = true; });
    elements.forEach(draw);
  });
  window.addEventListener('afterprint', () => {
    printing = false;
    closed.forEach((section) => { section.open = false; });
    elements.forEach(erase);
    elements.forEach((element) => watch.observe(element));
  });
}());
