"""Writes the bill of materials of packages to standard output, as CycloneDX 1.5 in JSON.

Usage: bill.py VERSION PACKAGE...

The crates are those that cargo builds into the packages for this machine: no build scripts' or tests' crates.
"""

import json
import subprocess
import sys


def main():
    version, packages = sys.argv[1], sys.argv[2:]
    host = next(
        line.split()[1]
        for line in subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
        if line.startswith("host:")
    )
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--filter-platform", host, "--locked"],
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
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"component": {"type": "application", "name": "vicus", "version": version}},
            "components": components,
        },
        sys.stdout,
        indent=1,
    )
    print()


def component(crate, checksums):
    name, version = crate["name"], crate["version"]
    found = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if crate["license"]:
        found["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
    if (name, version) in checksums:
        found["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return found


main()
