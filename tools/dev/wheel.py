"""A program for an installed wheel: run by `./dev test wheel`."""

import importlib.metadata
import subprocess
import sys

import vicus

assert "site-packages" in vicus.__file__, vicus.__file__
db = vicus.memory()
assert db.load(data="<http://e/a> <http://e/p> 1 .") == 1
assert db.query("SELECT ?o { ?s ?p ?o }").fetchall()[0].o.value == 1
said = subprocess.run(["vicus", "--version"], capture_output=True, text=True, check=True).stdout
assert said == f"vicus {importlib.metadata.version('vicus')}\n", said
assert not importlib.metadata.requires("vicus"), importlib.metadata.requires("vicus")
(store,) = importlib.metadata.entry_points(group="rdf.plugins.store", name="Vicus")
assert store.value == "vicus.rdflib:Store"
seen = []


def see(batch):
    seen.append(len(batch))
    return batch


net = vicus.Network()
net.library("numbers", to=5) | see | net.collect()
assert len(net.run().rows) == 5 and sum(seen) == 5
assert vicus.topology()["pus"]
if "without-libraries" not in sys.argv:
    # `./dev wheel` builds them beside the package.
    help = subprocess.run(["vicus", "run", "--help"], capture_output=True, text=True, check=True).stdout
    assert "OpenMP" in help
    done = subprocess.run(["vicus", "run", sys.executable, "-c", "print('ran')"], capture_output=True, text=True)
    assert done.stdout == "ran\n", done
