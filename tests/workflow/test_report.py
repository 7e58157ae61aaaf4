"""The report in a headless Chromium: no script error, no broken image, no dead link."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.browser import CHROMIUM, SIZES, visit

# Opens the report in a frame, shows every result and every view, and writes down what it met. The page's program may
# come after the page: it is waited for by requests, during which the browser's virtual clock does not change.
CRAWLER = """<!doctype html><title>crawler</title><iframe id=f width=1300 height=900 src="report.html"></iframe>
<pre id=found></pre><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const images = (doc) => [...doc.querySelectorAll("img")].filter((i) => !(i.complete && i.naturalWidth > 0)).length;
document.getElementById("f").addEventListener("load", async () => {
  const frame = document.getElementById("f").contentWindow;
  const found = {errors: [], broken: 0, shown: [], links: [], text: "", categories: {}, labels: [], edges: []};
  frame.addEventListener("error", (e) => found.errors.push(String(e.message)));
  frame.addEventListener("unhandledrejection", (e) => found.errors.push(String(e.reason)));
  const program = "typeof app !== 'undefined' && Boolean(app && app.setView)";
  const ready = () => frame.eval(program) && frame.document.body.innerText;
  for (let asked = 0; asked < 1000 && !ready(); asked++) await fetch("pause");
  found.text = frame.document.body.innerText;
  const app = frame.eval("app"), results = frame.eval("results");
  for (const view of [{content: "rulegraph"}, {content: "stats"}]) {
    app.setView(view); await wait(500); found.broken += images(frame.document);
    found.links.push(...[...frame.document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href")));
  }
  for (const name of Object.keys(frame.eval("categories"))) {
    app.showCategory(name); await wait(200);
    found.categories[name] = frame.document.querySelectorAll("nav table tbody tr").length;
  }
  const box = document.getElementById("f");
  const wide = Object.values(results).filter((entry) => entry.mime_type.startsWith("image/"))[0];
  for (const [width, height] of wide ? SIZES : []) {
    box.width = width; box.height = height;
    app.setView({content: "img", contentPath: wide.data_uri}); await wait(300);
    const image = [...frame.document.querySelectorAll("img")].filter((i) => i.src === wide.data_uri)[0];
    let holder = image;
    while (holder && !String(holder.className).includes("overflow-auto")) holder = holder.parentElement;
    if (!holder) continue;
    image.style.minWidth = "3000px"; image.style.minHeight = "3000px"; holder.scrollTo(0, 0); await wait(100);
    const inner = image.getBoundingClientRect(), outer = holder.getBoundingClientRect();
    found.edges.push([width, inner.top - outer.top, inner.left - outer.left, outer.width]);
    image.style.minWidth = ""; image.style.minHeight = "";
  }
  box.width = 1300; box.height = 900;
  for (const [path, entry] of Object.entries(results)) {
    found.labels.push(Object.keys(entry.labels || {}).length);
    app.setView({navbarMode: "resultinfo", resultPath: path}); await wait(200);
    const image = entry.mime_type.startsWith("image/");
    app.setView({content: image ? "img" : "html", contentPath: entry.data_uri}); await wait(500);
    found.broken += images(frame.document);
    if (image) {
      const shown = [...frame.document.querySelectorAll("img")].filter((i) => i.src === entry.data_uri);
      found.shown.push([path, shown.length ? shown[0].naturalWidth : 0]);
    } else {
      const text = await (await fetch(entry.data_uri)).text();
      const page = new DOMParser().parseFromString(text, "text/html");
      found.links.push(...[...page.querySelectorAll("a[href]")].map((a) => a.getAttribute("href")));
      const pictures = [...page.querySelectorAll("img")].filter((image) => image.src.length > 1000);
      found.shown.push([path, page.querySelectorAll("table tr").length + 10 * pictures.length]);
    }
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>"""
PROBE = CRAWLER.replace("SIZES", json.dumps(SIZES))


@pytest.mark.browser
def test_report_opens_without_a_fault(finished, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the report was not opened")
    (tmp_path / "page").mkdir()
    shutil.copy(finished.folder / "results/tiny/report.html", tmp_path / "page/report.html")
    found, console = visit(tmp_path / "page", PROBE, tmp_path / "profile")
    assert console == []
    assert found["errors"] == []
    assert found["broken"] == 0
    shown = dict(found["shown"])
    assert {path.rsplit("/", 1)[1] for path in shown} == {
        "table1.html",
        "table1.wide.html",
        "table7.html",
        "fig2.html",
        "claims.html",
        "runtimes.html",
        "audits.png",
        "audits.html",
    }
    assert all(size >= 2 for size in shown.values()), shown  # rows of a table, or pixels
    assert "This is a demonstration" in found["text"]
    assert len(found["categories"]) == 3
    assert all(found["categories"].values()), found["categories"]  # every category lists something
    # Snakemake makes a switch of a second label that has two values on half of the results each, and shows nothing
    # where a result has one of them only
    assert set(found["labels"]) == {1}
    assert [edge[0] for edge in found["edges"]] == [size[0] for size in SIZES]
    for width, top, left, across in found["edges"]:  # what is larger than the window begins at its edge
        assert top >= -1, width
        assert left >= -1, width
        assert across > 200, width
    for link in found["links"]:
        assert link.startswith(("http://", "https://", "#", "data:", "javascript:")), link


@pytest.mark.browser
def test_the_crawler_sees_faults(tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the crawler was not tried")
    (tmp_path / "page").mkdir()
    (tmp_path / "page/report.html").write_text(
        """<body><a href="gone.html">x</a><script>
        var categories = {};
        var results = {"a.png": {mime_type: "image/png", data_uri: "data:image/png;base64,AAAA"}};
        let app = {setView(view) { if (view.content === "img") {
          const image = document.createElement("img"); image.src = view.contentPath; document.body.append(image);
          setTimeout(() => { throw new Error("planted"); }, 0); } }};
        </script>"""
    )
    found, console = visit(tmp_path / "page", PROBE, tmp_path / "profile")
    assert found["broken"] >= 1
    assert any("planted" in error for error in found["errors"])
    assert any("planted" in line for line in console)
    assert "gone.html" in found["links"]
    assert dict(found["shown"])["a.png"] == 0


def test_the_first_page_links_to_what_is_there(finished):
    folder = finished.folder / "results/tiny"
    links = re.findall(r'<a href="([^"#]+)"', (folder / "index.html").read_text())
    assert len(links) > 15
    assert [link for link in links if not (folder / link).is_file()] == []
