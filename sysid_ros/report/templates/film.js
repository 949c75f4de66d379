// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Plays films: what moves is decoded as it is shown, before a ground that stays; nothing moves until asked.
(function () {
  'use strict';
  document.querySelectorAll('.film').forEach(function (film) {
    var scene = film.querySelector('.scene'), ground = scene.querySelector('img'), player = film.querySelector('.player');
    var button = player.querySelector('button'), slider = player.querySelector('input');
    var clock = player.querySelector('span'), data = film.querySelector('script');
    var rate = Number(film.dataset.rate), start = Number(film.dataset.start);
    var frames = null, canvas = null, shown = Number(slider.value), begun = null;

    function load() {
      if (frames) { return; }
      frames = JSON.parse(data.textContent);
      canvas = document.createElement('canvas');
      canvas.width = ground.naturalWidth;
      canvas.height = ground.naturalHeight;
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', ground.alt);
    }
    function draw(number) {
      var moved = new Image(), context = canvas.getContext('2d');
      moved.onload = function () {
        if (number !== shown) { return; }
        context.drawImage(ground, 0, 0);
        context.drawImage(moved, frames[number][0], frames[number][1]);
        if (!canvas.isConnected) { scene.replaceChildren(canvas); }
      };
      moved.src = 'data:image/webp;base64,' + frames[number][2];
    }
    function show(number) {
      load();
      if (number === shown) { return; }
      shown = number;
      var time = (start + number / rate).toFixed(1) + ' s';
      draw(number);
      slider.value = number;
      slider.setAttribute('aria-valuetext', time);
      clock.textContent = time;
    }
    function step(now) {
      if (begun === null) { return; }
      show(Math.floor((now - begun) * rate / 1000) % frames.length);
      requestAnimationFrame(step);
    }
    function play(from) {
      begun = from;
      button.textContent = begun === null ? 'Play' : 'Pause';
    }
    button.addEventListener('click', function () {
      if (begun !== null) { play(null); return; }
      show(shown);
      play(performance.now() - 1000 * shown / rate);
      requestAnimationFrame(step);
    });
    slider.addEventListener('input', function () {
      play(null);
      show(Number(slider.value));
    });
  });
})();
