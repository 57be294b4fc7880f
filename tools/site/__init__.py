"""The pages of README.md and docs/ as a site of static files, with search: `make docs`.

It needs no server and no network, opens from a folder as well as from a web server, and runs under a strict
content security policy. Where a page is in the navigation follows from docs/README.md alone.

contents    the order of pages: docs/README.md as sections, groups and entries
pages       Markdown to HTML: links, headings, code, what the search finds
layout      the frame around each page
build       all files of the site
__main__    the command

`assets` has the style, the script and the mark.
"""
