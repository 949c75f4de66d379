# Copyright 2026 The sysid_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the site needs beside the pages: README.md as its home, and links that leave docs/.

The same files are read on GitHub, where links are relative to the repository. In the site a link
to a file outside of docs/ leads to that file in the repository on the web.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

HOME = 'index.md'
_LINK = re.compile(r'(\]\()([^)\s#]+)((?:#[^)\s]*)?\))')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make README.md the home page; its links are written as seen from docs/."""
    docs = Path(config.docs_dir)

    def seen_from_docs(link: re.Match[str]) -> str:
        if '://' in link[2]:
            return link[0]
        return link[1] + os.path.relpath(docs.parent / link[2], docs) + link[3]

    text = (docs.parent / 'README.md').read_text('utf-8')
    files.append(File.generated(config, HOME, content=_LINK.sub(seen_from_docs, text)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside of docs/ to the repository on the web."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def on_the_web(link: re.Match[str]) -> str:
        if '://' in link[2]:
            return link[0]
        path = Path(os.path.normpath(folder / link[2]))
        if files.get_file_from_path(os.path.relpath(path, docs)) is not None:
            return link[0]
        inside = path.relative_to(docs.parent).as_posix()
        if inside == 'README.md':
            return link[1] + os.path.relpath(docs / HOME, folder) + link[3]
        kind = 'tree' if path.is_dir() else 'blob'
        repository = config.extra['repository']
        return f'{link[1]}{repository}/{kind}/main/{inside}{link[3]}'

    return _LINK.sub(on_the_web, markdown)
