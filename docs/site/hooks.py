"""Hooks of MkDocs: pages from outside docs/, the API reference, the page of results, navigation, mathematics."""

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import janossy
from links import check  # MkDocs puts this folder on the path
from results import page as results_page

ROOT = Path(__file__).parents[2]
LOOK = ROOT / "src" / "janossy" / "cli" / "pages" / "look.css"
GALLERY = ROOT / "build" / "gallery"
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)")
FENCE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
RESULTS = "results/index.md"
GALLERY_DATA = "examples/gallery/data/README.md"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/**/*.md", "benchmarks/results/**/*.md")


def place(path: str) -> str:
    """Returns the place in the site of a file of the repository: docs/ is the root, README its front page."""
    if path == "README.md":
        return "index.md"
    if path == "examples/gallery":
        return "gallery/index.md"
    if path.startswith("examples/gallery/") and path.endswith(".py"):
        return f"gallery/{Path(path).stem}.md"
    if path.endswith((".md", ".png", ".svg")):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def origin(uri: str) -> str:
    """Returns the path in the repository of a page of the site."""
    if uri == "index.md":
        return "README.md"
    return uri if (ROOT / uri).exists() else f"docs/{uri}"


def gallery_pages() -> list[str]:
    """Returns the names of the gallery's pages, in order."""
    return sorted(path.stem for path in (ROOT / "examples" / "gallery").glob("*.py"))


def links(text: str) -> list[str]:
    """Returns the relative links of a page, outside of code."""
    return LINK.findall(FENCE.sub("", text))


def as_code(path: Path) -> str:
    """Returns the page that shows a file, or the list of a folder's files."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"# {name}\n\n" + "".join(
            f"- {each.name}\n" for each in sorted(path.iterdir()) if each.name[0] not in "_."
        )
    kind = {"py": "python", "yml": "yaml", "toml": "toml", "json": "json"}.get(path.suffix[1:], "text")
    return f"# {name}\n\n````{kind}\n{path.read_text(encoding='utf-8')}\n````\n"


def public_names(room: str) -> list[str]:
    """Returns the public names of a room, in order."""
    module = importlib.import_module(f"janossy.{room}")
    return sorted(getattr(module, "__all__", None) or ["Ragged"])


def reference() -> dict[str, str]:
    """Returns the pages of the API reference: one per room, and a list of all names."""
    pages, front = {}, "# API reference\n\nEvery public name, per room. `import janossy` gives the names in bold.\n\n"
    for room in sorted(janossy._ROOMS):
        names = public_names(room)
        about = (importlib.import_module(f"janossy.{room}").__doc__ or "").strip()
        body = "".join(f"::: janossy.{room}.{name}\n\n" for name in names)
        pages[f"api/{room}.md"] = f"# janossy.{room}\n\n{about}\n\n{body}"
        shown = (f"**{name}**" if name in janossy.__all__ else name for name in names)
        listed = ", ".join(
            f"[{text}]({room}.md#janossy.{room}.{name})" for name, text in zip(names, shown, strict=True)
        )
        front += f"## [janossy.{room}]({room}.md)\n\n{about.splitlines()[0]}\n\n{listed}\n\n"
    return {"api/index.md": front, **pages}


def mathematics(source: str, *_: Any, **__: Any) -> str:
    """Returns the MathML of a fenced block of LaTeX."""
    return f'<div class="math">{latex2mathml.converter.convert(source, display="block")}</div>'


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the fence ``math``, and the navigation of results, of the gallery and of the reference."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": mathematics})
    sections = {name: entries for item in config.nav for name, entries in item.items()}
    sections["API"] += [f"api/{room}.md" for room in sorted(janossy._ROOMS)]
    sections["Gallery"] += ["gallery/index.md", *(f"gallery/{name}.md" for name in gallery_pages()), GALLERY_DATA]
    sections["Results"] += [
        {
            "Reports of studies": sorted(
                file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs/results").rglob("*.md")
            )
        },
        {
            "Benchmarks": sorted(
                file.relative_to(ROOT).as_posix() for file in (ROOT / "benchmarks/results").rglob("*.md")
            )
        },
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside docs/, the reference, the style of reports, and the source files that pages link to."""
    files.append(File.generated(config, "site/look.css", abs_src_path=str(LOOK)))
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, place(path.relative_to(ROOT).as_posix()), abs_src_path=str(path)))
    if not (GALLERY / "index.md").exists():
        raise PluginError(f"the pages of the gallery are not all in {GALLERY}. Run make docs.")
    for path in sorted(GALLERY.iterdir()):
        files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    for uri, text in {**reference(), RESULTS: results_page()}.items():
        files.append(File.generated(config, uri, content=text))
    for page in [file for file in files.documentation_pages() if not file.src_uri.startswith(("api/", "gallery/"))]:
        folder = posixpath.dirname(origin(page.src_uri))
        for link in links(page.content_string):
            path = posixpath.normpath(posixpath.join(folder, link))
            if files.get_file_from_path(place(path)) or not (ROOT / path).exists():
                continue
            if place(path).startswith("source/"):
                files.append(File.generated(config, place(path), content=as_code(ROOT / path)))
            else:
                files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links at the places of their files in the site."""
    uri = page.file.src_uri
    if uri.startswith(("api/", "source/", "gallery/")):
        return markdown
    folder = posixpath.dirname(origin(uri))

    def pointed(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        return posixpath.relpath(place(path), posixpath.dirname(uri) or ".")

    parts, end = [], 0
    for code in FENCE.finditer(markdown):
        parts += [LINK.sub(pointed, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(pointed, markdown[end:])])


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Checks the links of the built pages, and lists the external ones in build/external-links.txt."""
    site = Path(config.site_dir)
    (site / "404.html").unlink()  # its links are absolute, which a site below a path does not have
    broken, external = check(site)
    if broken:
        raise PluginError("links of the site lead nowhere:\n" + "\n".join(broken))
    listed = site.parent / "external-links.txt"
    listed.write_text("".join(f"{link}\n" for link in external), encoding="utf-8")
    print(f"All internal links lead somewhere; {len(external)} external links are listed in {listed}.")
