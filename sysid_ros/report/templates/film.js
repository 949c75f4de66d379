// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Plays films: frames are decoded one by one as they are shown, and nothing moves until asked.
(function () {
  'use strict';
  document.querySelectorAll('.film').forEach(function (film) {
    var picture = film.querySelector('img'), player = film.querySelector('.player');
    var button = player.querySelector('button'), slider = player.querySelector('input');
    var clock = player.querySelector('span'), data = film.querySelector('script');
    var rate = Number(film.dataset.rate), start = Number(film.dataset.start);
    var frames = null, shown = Number(slider.value), begun = null;
    player.hidden = false;

    function show(number) {
      frames = frames || JSON.parse(data.textContent);
      if (number === shown) { return; }
      shown = number;
      var time = (start + number / rate).toFixed(1) + ' s';
      picture.src = 'data:image/webp;base64,' + frames[number];
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
