"""A run in Perfetto's form, read back by the classes that its project generates from its schema.

What is expected comes from `vicus trace summary`. Called by `./dev test readers` as: perfetto_form.py VICUS FOLDER.
"""

import json
import subprocess
import sys
from collections import defaultdict

vicus, folder = sys.argv[1:]

try:
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
except ImportError:
    sys.exit("the package perfetto is not installed")


def run(*words):
    return subprocess.run([vicus, *words], check=True, stdout=subprocess.PIPE).stdout


def check(is_so, what):
    if not is_so:
        sys.exit(f"Perfetto: {what}")


def check_known(message, where):
    """Every field is one of the schema, at any depth."""
    check(len(UnknownFieldSet(message)) == 0, f"{where} has a field that the schema lacks")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                check_known(part, f"{where}.{field.name}")


query = """PREFIX swrc: <http://swrc.ontoware.org/ontology#>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
SELECT DISTINCT ?one ?other { ?a swrc:journal ?j ; dc:title ?one . ?b swrc:journal ?j ; dc:title ?other FILTER(?one < ?other) }
"""
with open(f"{folder}/slow.rq", "w", encoding="utf-8") as file:
    file.write(query)
run("generate", "sp2b", "--triples", "10000", "--output", f"{folder}/sp2b.nt")
run("query", "--data", f"{folder}/sp2b.nt", "--query", f"{folder}/slow.rq", "--format", "count", "--threads", "2",
    "--trace", f"{folder}/run.trace")
run("trace", "view", f"{folder}/run.trace", "--perfetto", f"{folder}/run.pftrace")
summary = json.loads(run("trace", "summary", f"{folder}/run.trace", "--format", "json"))

trace = Trace()
with open(f"{folder}/run.pftrace", "rb") as file:
    trace.ParseFromString(file.read())

tracks, names, open_slices = {}, defaultdict(dict), defaultdict(list)
given, taken = defaultdict(int), defaultdict(int)
busy = defaultdict(int)
last = defaultdict(int)
slices = 0
for number, packet in enumerate(trace.packet):
    check_known(packet, f"packet {number}")
    sequence = packet.trusted_packet_sequence_id
    check(sequence > 0, f"packet {number} is of no sequence")
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        check(track.uuid not in tracks, f"two tracks have the id {track.uuid}")
        check(not track.parent_uuid or track.parent_uuid in tracks, f"the parent of {track.name} is unknown")
        tracks[track.uuid] = track
    for name in packet.interned_data.event_names:
        names[sequence][name.iid] = name.name
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    check(event.track_uuid in tracks, f"packet {number} is on no track")
    check(packet.timestamp >= last[event.track_uuid], f"packet {number} goes back in time")
    last[event.track_uuid] = packet.timestamp
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        name = names[sequence].get(event.name_iid)
        check(name, f"packet {number} has a name that was not told")
        open_slices[event.track_uuid].append((name, list(event.categories), packet.timestamp))
        slices += 1
        for flow in event.flow_ids:
            given[flow] += 1
        for flow in event.terminating_flow_ids:
            taken[flow] += 1
    else:
        check(event.type == TrackEvent.TYPE_SLICE_END, f"packet {number} neither begins nor ends a slice")
        check(open_slices[event.track_uuid], f"packet {number} ends a slice that has not begun")
        name, categories, begin = open_slices[event.track_uuid].pop()
        if categories == ["work"]:
            busy[name] += packet.timestamp - begin

check(slices > 100, f"only {slices} slices")
check(not any(open_slices.values()), "slices without an end")
processes = [track for track in tracks.values() if track.HasField("process")]
check(processes, "no node is a process")
seats = [track for track in tracks.values() if track.parent_uuid in {track.uuid for track in processes}]
working = [seat for seat in summary["seats"] if seat["busy_ns"] > 0 and not seat["is_callers"]]
check(len(seats) >= len(working), f"{len(seats)} tracks of seats for {len(working)} seats that worked")
check(taken and all(flow in given for flow in taken), "a flow ends that nothing began")
check(all(count == 1 for count in (*given.values(), *taken.values())), "a flow begins or ends twice")
# A slice has the name of a box: its type, and a number behind # if there are several.
of_summary = {row["type_name"]: row["busy_ns"] for row in summary["boxes"] if row["busy_ns"] > 0}
check(of_summary, "the summary has no work")
for type_name, busy_ns in of_summary.items():
    own = sum(ns for name, ns in busy.items() if name.split("#")[0] == type_name)
    check(own == busy_ns, f"{type_name}: {own} ns in slices, {busy_ns} ns in the summary")
print(f"Perfetto: {len(trace.packet)} packets with {slices} slices are as its schema has them")
