// Copyright 2026 The sysid_ros authors
// SPDX-License-Identifier: Apache-2.0
// Sorts and filters tables that are whole without it.
'use strict';
(function () {
  const names = new Intl.Collator(undefined, { numeric: true });

  function keyOf(row, column) {
    const cell = row.cells[column];
    return 'key' in cell.dataset ? cell.dataset.key : cell.textContent;
  }

  // What has no number comes last in both directions.
  function order(kind, down) {
    return (a, b) => {
      if (kind !== 'number') return (down ? -1 : 1) * names.compare(a, b);
      const [x, y] = [Number.parseFloat(a), Number.parseFloat(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return (down ? -1 : 1) * (x - y);
    };
  }

  function makeSortable(table) {
    const [body] = table.tBodies;
    const given = Array.from(body.rows);
    const headers = Array.from(table.tHead.rows[0].cells);

    function sort(column, down) {
      headers.forEach((header, place) => {
        if (place === column) header.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        else header.removeAttribute('aria-sort');
      });
      const rows = given.slice();
      if (column >= 0) {
        const compare = order(headers[column].dataset.sort, down);
        rows.sort((a, b) => compare(keyOf(a, column), keyOf(b, column)));
      }
      body.append(...rows);
    }

    headers.forEach((header, column) => {
      if (!header.dataset.sort) return;
      const label = header.querySelector('span');
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = label.textContent;
      label.replaceWith(button);
      // Up, down, and as it was.
      button.addEventListener('click', () => {
        const now = header.getAttribute('aria-sort');
        sort(now === 'descending' ? -1 : column, now === 'ascending');
      });
    });
  }

  function makeFiltered(table, tools) {
    const rows = Array.from(table.tBodies[0].rows);
    const buttons = Array.from(tools.querySelectorAll('button[data-verdict]'));
    const words = tools.querySelector('input');
    const said = tools.querySelector('output');

    function show() {
      const pressed = buttons.filter((button) => button.getAttribute('aria-pressed') === 'true');
      const wanted = new Set(pressed.map((button) => button.dataset.verdict));
      const text = words.value.trim().toLowerCase();
      rows.forEach((row) => {
        row.hidden = (wanted.size > 0 && !wanted.has(row.dataset.verdict))
          || !row.textContent.toLowerCase().includes(text);
      });
      const shown = rows.filter((row) => !row.hidden).length;
      said.textContent = shown === rows.length ? '' : `${shown} of ${rows.length} shown`;
    }

    buttons.forEach((button) => button.addEventListener('click', () => {
      button.setAttribute('aria-pressed', String(button.getAttribute('aria-pressed') !== 'true'));
      show();
    }));
    words.addEventListener('input', show);
  }

  document.querySelectorAll('table[data-sortable]').forEach((table) => {
    const tools = document.getElementById(table.dataset.sortable);
    makeSortable(table);
    if (tools) makeFiltered(table, tools);
  });
}());
