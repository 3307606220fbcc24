//! The machine of a run as nested boxes: nodes, core groups, caches, cores and PUs, with the seats on them and how busy
//! each was. A recording that does not know its machine has the places of its seats alone.

use crate::html::Escaped;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::fmt::Write;
use vicus_topology::{Cache, PuId, Topology};
use vicus_trace::{Header, Summary};

/// Larger machines are not drawn whole, nor those of a damaged file.
const MOST_PUS: usize = 1024;
const MOST_SHARES: usize = 64 * MOST_PUS;
/// Caches are nested no deeper.
const MOST_DEPTH: usize = 8;

/// Numbers for the places of a run's pictures: the viewer marks the seats of a place by its number.
#[derive(Default)]
pub(crate) struct Places(usize);

impl Places {
    /// The attributes of a further place with these seats; none for a place without seats.
    pub(crate) fn next(&mut self, seats: &[usize]) -> String {
        if seats.is_empty() {
            return String::new();
        }
        let numbers: Vec<String> = seats.iter().map(usize::to_string).collect();
        self.0 += 1;
        format!(" data-place=\"{}\" data-seats=\"{}\"", self.0 - 1, numbers.join(" "))
    }
}

/// A box of the picture.
struct Room {
    class: &'static str,
    label: String,
    inside: Vec<Room>,
    /// The seats on a PU.
    seats: Vec<usize>,
}

impl Room {
    fn new(class: &'static str, label: String, inside: Vec<Room>) -> Room {
        Room { class, label, inside, seats: Vec::new() }
    }

    fn add_seats(&self, to: &mut Vec<usize>) {
        to.extend(&self.seats);
        self.inside.iter().for_each(|room| room.add_seats(to));
    }

    fn write(&self, summary: &Summary, places: &mut Places, out: &mut String) {
        let Room { class, label, inside, seats } = self;
        let mut all = Vec::new();
        self.add_seats(&mut all);
        all.sort_unstable();
        let (place, free) = match *class {
            "pu" => (String::new(), if all.is_empty() { " free" } else { "" }),
            _ => (places.next(&all), if all.is_empty() { " free" } else { "" }),
        };
        let label = match place.is_empty() {
            true => format!("<b>{}</b>", Escaped(label)),
            false => format!("<button type=\"button\">{}</button>", Escaped(label)),
        };
        _ = write!(out, "<div class=\"{class}{free}\"{place}>{label}");
        inside.iter().for_each(|room| room.write(summary, places, out));
        for &seat in seats {
            let sums = &summary.seats[seat];
            let all = sums.busy_ns.saturating_add(sums.overhead_ns).saturating_add(sums.idle_ns).max(1);
            let percent = sums.busy_ns as f64 / summary.span_ns.max(all).max(1) as f64 * 100.0;
            _ = write!(
                out,
                "<button type=\"button\" class=\"seat\" data-seat=\"{seat}\">seat {seat}<svg viewBox=\"0 0 100 6\" \
                 preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"of\" width=\"100\" \
                 height=\"6\"/><rect width=\"{percent:.1}\" height=\"6\"/></svg><small>{percent:.0} % \
                 busy</small></button>"
            );
        }
        out.push_str("</div>");
    }
}

/// Draws the cores of a run. Says whether it has drawn the machine whole.
pub(crate) fn write(header: &Header, summary: &Summary, places: &mut Places, out: &mut String) -> bool {
    let machines = whole(header);
    let rooms = match machines {
        Some(machines) => machines.iter().enumerate().flat_map(|(process, machine)| nodes(header, process, machine)),
        None => {
            out.push_str("<div class=\"floor\">");
            used(header).iter().for_each(|room| room.write(summary, places, out));
            out.push_str("</div>\n");
            return false;
        }
    };
    out.push_str("<div class=\"floor\">");
    rooms.for_each(|room| room.write(summary, places, out));
    out.push_str("</div>\n");
    true
}

/// The machines of all processes, if each is known, sound, and has the PUs of the seats.
fn whole(header: &Header) -> Option<&[Topology]> {
    let machines = &header.machines[..];
    let is_drawn = |machine: &Topology| {
        let shares: usize = machine.caches.iter().map(|cache| cache.pus.len()).sum();
        machine.pus.len() <= MOST_PUS && shares <= MOST_SHARES && machine.check().is_ok()
    };
    let is_there = |seat: &vicus_trace::SeatInfo| {
        machines.get(seat.process as usize).is_some_and(|machine| seat.pu.index() < machine.pus.len())
    };
    let fits = machines.len() == header.processes.len().max(1) && header.seats.iter().all(is_there);
    (fits && machines.iter().all(is_drawn)).then_some(machines)
}

/// The node of a process, as people call it.
fn node_name(header: &Header, process: usize, node: usize) -> String {
    match header.processes.get(process) {
        Some(name) => format!("{name}, node {node}"),
        None => format!("node {node}"),
    }
}

fn nodes(header: &Header, process: usize, machine: &Topology) -> Vec<Room> {
    let mut seats: FxHashMap<PuId, Vec<usize>> = FxHashMap::default();
    for (seat, info) in header.seats.iter().enumerate() {
        if !info.is_callers && info.process as usize == process {
            seats.entry(info.pu).or_default().push(seat);
        }
    }
    let node = |node: &vicus_topology::Node| {
        let memory = if node.bytes > 0 { format!(", {}", size(node.bytes)) } else { String::new() };
        let alone = if node.pus.is_empty() { ", without PUs" } else { "" };
        let groups = machine.core_groups.iter().filter(|group| group.node == node.id).map(|group| {
            let mut caches: Vec<&Cache> =
                machine.caches.iter().filter(|cache| cache.pus.iter().any(|pu| group.pus.contains(pu))).collect();
            caches.sort_by_key(|cache| (Reverse(cache.pus.len()), Reverse(cache.level), cache.id));
            let inside = nest(machine, &seats, &group.pus, &caches, 0);
            Room::new("group", format!("core group {}", group.id.index()), inside)
        });
        let name = node_name(header, process, node.id.index());
        Room::new("node", format!("{name}{memory}{alone}"), groups.collect())
    };
    machine.nodes.iter().map(node).collect()
}

/// These PUs, within the caches that several cores share, the largest first.
fn nest(
    machine: &Topology,
    seats: &FxHashMap<PuId, Vec<usize>>,
    pus: &[PuId],
    caches: &[&Cache],
    depth: usize,
) -> Vec<Room> {
    let mut rest = pus.to_vec();
    let mut rooms = Vec::new();
    while let Some(&first) = rest.first() {
        let core = &machine.cores[machine.pus[first.index()].core.index()];
        let is_around = |cache: &&Cache| cache.pus.len() > core.pus.len() && cache.pus.contains(&first);
        let around = caches.iter().position(is_around).filter(|_| depth < MOST_DEPTH);
        let within = around.map_or(&core.pus, |at| &caches[at].pus);
        let own: Vec<PuId> = rest.iter().copied().filter(|pu| within.contains(pu)).collect();
        rest.retain(|pu| !within.contains(pu));
        let names = |caches: &mut dyn Iterator<Item = &Cache>| -> Vec<String> {
            caches.map(|cache| format!("L{} {}", cache.level, size(cache.bytes)).replace(" 0 B", "")).collect()
        };
        rooms.push(match around {
            Some(at) => {
                // Caches of the same PUs are one box.
                let end = at + caches[at..].iter().take_while(|cache| cache.pus == caches[at].pus).count();
                let label = names(&mut caches[at..end].iter().copied()).join(" · ");
                Room::new("cache", label, nest(machine, seats, &own, &caches[end..], depth + 1))
            }
            None => {
                let mut private = caches.iter().copied();
                let mut private = private.by_ref().filter(|cache| !is_around(cache) && cache.pus.contains(&first));
                let kind = match machine.cores.iter().any(|other| other.kind != core.kind) {
                    true => format!(", kind {}", core.kind),
                    false => String::new(),
                };
                let name = format!("core {}{kind}", core.id.index());
                let label = [vec![name], names(&mut private)].concat().join(" · ");
                let pu = |pu: PuId| {
                    let off = if machine.pus[pu.index()].usable { "" } else { ", not for this process" };
                    let seats = seats.get(&pu).cloned().unwrap_or_default();
                    Room { class: "pu", label: format!("PU {}{off}", pu.index()), inside: Vec::new(), seats }
                };
                Room::new("core", label, own.into_iter().map(pu).collect())
            }
        });
    }
    rooms
}

/// The places of seats alone: nodes, in them core groups, in them PUs. Callers have none.
fn used(header: &Header) -> Vec<Room> {
    let mut seats: Vec<usize> = (0..header.seats.len()).filter(|seat| !header.seats[*seat].is_callers).collect();
    let place = |seat: usize| {
        let info = header.seats[seat];
        [info.process as usize, info.node.index(), info.group.index(), info.pu.index()]
    };
    seats.sort_by_key(|seat| (place(*seat), *seat));
    let mut rooms: Vec<Room> = Vec::new();
    let mut open: Option<[usize; 4]> = None;
    for seat in seats {
        let now @ [process, node, group, pu] = place(seat);
        let is_new = |depth: usize| open.is_none_or(|open| open[..depth] != now[..depth]);
        if is_new(2) {
            rooms.push(Room::new("node", node_name(header, process, node), Vec::new()));
        }
        let groups = &mut rooms.last_mut().expect("a node has been added").inside;
        if is_new(3) {
            groups.push(Room::new("group", format!("core group {group}"), Vec::new()));
        }
        let pus = &mut groups.last_mut().expect("a group has been added").inside;
        if is_new(4) {
            pus.push(Room::new("pu", format!("PU {pu}"), Vec::new()));
        }
        pus.last_mut().expect("a PU has been added").seats.push(seat);
        open = Some(now);
    }
    rooms
}

/// A size with two digits behind the point at most: `1.25 MiB`.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len()).rev().find(|&power| bytes >> (10 * power) > 0).unwrap_or(0);
    let text = format!("{:.2}", bytes as f64 / (1_u64 << (10 * power)) as f64);
    format!("{} {}", text.trim_end_matches('0').trim_end_matches('.'), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::{SeatInfo, SeatLog, Trace};

    /// A run with seats on these PUs of a machine.
    fn drawn(machine: &Topology, pus: &[usize]) -> (String, bool) {
        let seat = |pu: &usize| {
            let pu = &machine.pus[*pu];
            SeatInfo { pu: pu.id, group: pu.group, node: pu.node, is_callers: false, process: 0 }
        };
        let header =
            Header { machines: vec![machine.clone()], seats: pus.iter().map(seat).collect(), ..Header::default() };
        let trace = Trace::new(header, vec![SeatLog::default(); pus.len()]);
        let mut out = String::new();
        let is_whole = write(trace.header(), &trace.summary(), &mut Places::default(), &mut out);
        (out, is_whole)
    }

    /// The text of a picture without its elements, one part of it after the other.
    fn words(picture: &str) -> Vec<&str> {
        let texts = picture.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.trim());
        texts.filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn cores_without_a_seat_are_drawn_as_well() {
        let machine = Topology::parse("node:2 l3:1 core:2 pu:2").unwrap();
        let (picture, is_whole) = drawn(&machine, &[0, 5]);
        assert!(is_whole);
        let found = words(&picture);
        let count = |word: &str| found.iter().filter(|text| text.starts_with(word)).count();
        assert_eq!([count("node "), count("L3"), count("core group"), count("PU ")], [2, 2, 2, 8], "{found:?}");
        assert_eq!(found.iter().filter(|text| text.starts_with("core ") && !text.contains("group")).count(), 4);
        // The seats of the machine's parts: PU 5 is of the second node.
        for (name, seats) in [("node 0", "0"), ("node 1", "1"), ("core group 1", "1")] {
            let (before, _) = picture.split_once(&format!(">{name}")).expect(name);
            let (_, attributes) = before.rsplit_once("<div ").unwrap();
            assert!(attributes.contains(&format!("data-seats=\"{seats}\"")), "{name}: {attributes}");
        }
        assert_eq!(picture.matches("class=\"pu free\"").count(), 6);
        assert_eq!(picture.matches("<div").count(), picture.matches("</div>").count());
    }

    #[test]
    fn every_known_machine_is_drawn_whole() {
        for machine in vicus_topology::fixtures().iter().filter(|machine| machine.pus.len() <= MOST_PUS) {
            let (picture, is_whole) = drawn(machine, &[0]);
            assert!(is_whole, "{}", machine.name);
            let pus = words(&picture).iter().filter(|text| text.starts_with("PU ")).count();
            assert_eq!(pus, machine.pus.len(), "{}", machine.name);
        }
    }

    /// A file may hold anything: the places of the seats are then what there is.
    #[test]
    fn an_impossible_machine_is_not_drawn() {
        let machine = Topology::parse("node:2 core:2").unwrap();
        let mut broken = machine.clone();
        broken.cores[1].pus.clear();
        let mut other = machine.clone();
        other.caches =
            vec![Cache { pus: vec![PuId::new(77)], ..Topology::parse("l3:1 core:2").unwrap().caches[0].clone() }];
        for broken in [broken, other] {
            let (picture, is_whole) = drawn(&broken, &[0, 3]);
            assert!(!is_whole);
            assert_eq!(words(&picture)[..3], ["node 0", "core group 0", "PU 0"], "{picture}");
        }
    }
}
