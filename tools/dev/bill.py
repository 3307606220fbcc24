"""Writes the bill of materials of packages, as CycloneDX 1.5 in JSON, and the licences that copies must have with them.

Usage: bill.py VERSION FOLDER TARGET PACKAGE... [-- OPTION...]

Makes bill-of-materials.cdx.json and THIRD-PARTY in the folder. The crates are those that cargo builds into the packages for
this machine, with the options of features that it is given: no build scripts' or tests' crates.
"""

import json
import pathlib
import subprocess
import sys


def main():
    version, folder, target = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    packages, _, features = " ".join(sys.argv[4:]).partition(" -- ")
    packages = packages.split()
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--filter-platform", target, "--locked", *features.split()],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    crates = {crate["id"]: crate for crate in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    checksums = {}
    name = number = None
    with open("Cargo.lock", encoding="utf-8") as lock:
        for line in lock:
            key, _, value = line.partition(" = ")
            value = value.strip().strip('"')
            if key == "name":
                name = value
            elif key == "version":
                number = value
            elif key == "checksum":
                checksums[name, number] = value
    reached, ahead = set(), [id for id, crate in crates.items() if crate["name"] in packages]
    if len(ahead) != len(packages):
        sys.exit(f"bill.py: not all packages are in the workspace: {packages}")
    while ahead:
        id = ahead.pop()
        if id in reached:
            continue
        reached.add(id)
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                ahead.append(dependency["pkg"])
    components = [component(crates[id], checksums) for id in reached]
    components.sort(key=lambda component: (component["name"], component["version"]))
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "vicus", "version": version}},
        "components": components,
    }
    with open(folder / "bill-of-materials.cdx.json", "w", encoding="utf-8") as file:
        json.dump(bill, file, indent=1)
        file.write("\n")
    with open(folder / "THIRD-PARTY", "w", encoding="utf-8") as file:
        file.write(licences([crates[id] for id in reached]))


def licences(crates):
    """Each different text once, with the crates that have it."""
    users = {}
    for crate in sorted(crates, key=lambda crate: (crate["name"], crate["version"])):
        # Crates of the workspace have the licences beside this file.
        if crate["source"] is None:
            continue
        beside = pathlib.Path(crate["manifest_path"]).parent
        for path in sorted(beside.rglob("*")):
            words = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
            if path.is_file() and path.suffix not in (".rs", ".py") and path.name.upper().startswith(words):
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                name = f"{crate['name']} {crate['version']}"
                if name not in users.setdefault(text, []):
                    users[text].append(name)
    rule = "=" * 80
    return "\n\n".join(f"{rule}\n{', '.join(names)}\n{rule}\n\n{text}" for text, names in users.items()) + "\n"


def component(crate, checksums):
    name, version = crate["name"], crate["version"]
    found = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if crate["license"]:
        found["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        found["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return found


main()
