"""The documentation's settings. Build: sphinx-build -W -b html docs build/docs.

With -D nb_execution_mode=off -D suppress_warnings=myst-nb.lexer no cell is executed: broken references and markup are found.
"""

project = "tapegrad"
author = "tapegrad"
copyright = "tapegrad"  # noqa: A001

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_build", "package.md"]  # package.md is the description on a package index
html_theme = "furo"
html_title = "tapegrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path: list[str] = []

default_role = "code"  # docstrings write `x` for code
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_block"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]

nb_execution_mode = "force"  # what a page prints is what the code prints today
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_markdown_format = "myst"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = False
