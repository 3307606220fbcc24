//! A plan's text for people: names with numbers in a row are a range, seats that do the same are one block, and where
//! many queues or seats differ in names alone, as in the order of their neighbours, the first stands for all.

use std::fmt::Write as _;

/// So many names in a row are worth a range.
const WORTH: usize = 3;
/// More blocks of the same shape are told of by the first.
const MOST_ALIKE: usize = 8;
/// A longer list is shown by its first names, and by the last one if more stands behind that.
const MOST_NAMES: usize = 10;
const SHOWN_NAMES: usize = 6;

const FITS: &str = "a string takes everything";

/// The text of a plan with ranges: `tasks of seat1 to seat5`, and a block of lines for all seats that search alike.
/// Names that are a seat's own, or its pool's, are called so.
pub(super) fn folded(plan: &str) -> String {
    let mut folded = String::new();
    let (mut seats, mut others): (Vec<Seat<'_>>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut lines = plan.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(mut seat) = Seat::of(line) {
            write_lines(&mut folded, &mut others);
            while let Some(own) = lines.next_if(|line| line.starts_with("  ")) {
                seat.search.push(seat.with_own(own));
            }
            seats.push(seat);
            continue;
        }
        write_seats(&mut folded, &mut seats);
        if others.last().is_some_and(|last| kind(last) != kind(line)) {
            write_lines(&mut folded, &mut others);
        }
        others.push(line);
    }
    write_seats(&mut folded, &mut seats);
    write_lines(&mut folded, &mut others);
    folded
}

/// The first name of a line without its number: lines of one kind stand together.
fn kind(line: &str) -> &str {
    line.split_once(|character: char| character.is_ascii_digit()).map_or(line, |(kind, _)| kind)
}

/// Lines of one kind, such as all queues. Many of the same shape are told of by the first.
fn write_lines(text: &mut String, lines: &mut Vec<&str>) {
    for alike in groups(std::mem::take(lines), |line| shape(line)) {
        let told = if alike.len() > MOST_ALIKE { 1 } else { alike.len() };
        for line in &alike[..told] {
            writeln!(text, "{}", shown(line)).expect(FITS);
        }
        if told < alike.len() {
            // The name and, of queues, what stands behind it.
            let heads: Vec<&str> =
                alike[told..].iter().map(|line| line.split([':', ';']).next().unwrap_or(line)).collect();
            let words = |at: usize| {
                let part = |head: &&str| head.trim_start().splitn(2, ' ').nth(at).unwrap_or_default().to_owned();
                ranges(&heads.iter().map(part).collect::<Vec<_>>().join(", "))
            };
            let indent = if alike[0].starts_with(' ') { "  " } else { "" };
            let of = words(1);
            let of = if of.chars().any(char::is_numeric) { format!(", {of}") } else { String::new() };
            writeln!(text, "{indent}{}{of}: likewise", shortened(&words(0))).expect(FITS);
        }
    }
}

/// A seat's block: `seat3: pu3 on node0, pool0, affinity [pu3]`, and its lines below.
struct Seat<'a> {
    name: &'a str,
    spare: &'a str,
    pu: &'a str,
    node: &'a str,
    pool: &'a str,
    affinity: String,
    search: Vec<String>,
}

impl<'a> Seat<'a> {
    fn of(line: &'a str) -> Option<Seat<'a>> {
        let (name, rest) = line.split_once(": ")?;
        let (name, spare) = name.split_once(' ').unwrap_or((name, ""));
        numbered(name).filter(|(word, _)| *word == "seat")?;
        let (pu, rest) = rest.split_once(" on ")?;
        let (node, rest) = rest.split_once(", ")?;
        let (pool, affinity) = rest.split_once(", affinity ")?;
        let affinity = if affinity == format!("[{pu}]") { "its own".to_owned() } else { affinity.to_owned() };
        Some(Seat { name, spare, pu, node, pool, affinity, search: Vec::new() })
    }

    /// A line of its search, with `itself` in place of its name, and `its pool`.
    fn with_own(&self, line: &str) -> String {
        let place = |word: &str| {
            let name = word.trim_end_matches([',', ';', ']']);
            let behind = &word[name.len()..];
            match name {
                _ if name == self.name => format!("itself{behind}"),
                _ if name == self.pool => format!("its pool{behind}"),
                _ => word.to_owned(),
            }
        };
        line.split(' ').map(place).collect::<Vec<_>>().join(" ")
    }

    /// Equal for seats that do the same.
    fn does(&self) -> (&str, &str, &[String]) {
        (self.spare, &self.affinity, &self.search)
    }

    /// Equal for seats that do the same but for names.
    fn shape(&self) -> (String, String, Vec<String>) {
        let search = self.search.iter().map(|line| shape(line)).collect();
        (self.spare.to_owned(), shape(&self.affinity), search)
    }
}

/// The blocks of seats that were read, the first of equal ones for all of them.
fn write_seats(text: &mut String, seats: &mut Vec<Seat<'_>>) {
    let equal = groups(std::mem::take(seats), |seat| format!("{:?}", seat.does()));
    for alike in groups(equal, |seats| seats[0].shape()) {
        let told = if alike.len() > MOST_ALIKE { 1 } else { alike.len() };
        for seats in &alike[..told] {
            write_head(text, &seats.iter().collect::<Vec<_>>());
            writeln!(text, ", affinity {}", shown(&seats[0].affinity)).expect(FITS);
            for line in &seats[0].search {
                writeln!(text, "{}", shown(line)).expect(FITS);
            }
        }
        if told < alike.len() {
            write_head(text, &alike[told..].iter().flatten().collect::<Vec<_>>());
            *text += "; likewise, each in its own order\n";
        }
    }
}

fn write_head<'a>(text: &mut String, seats: &[&Seat<'a>]) {
    let each = |of: fn(&Seat<'a>) -> &'a str| {
        let mut names: Vec<&str> = seats.iter().map(|seat| of(seat)).collect();
        names.dedup();
        shortened(&ranges(&names.join(", ")))
    };
    let (names, pus) = (each(|seat| seat.name), each(|seat| seat.pu));
    let (nodes, pools) = (each(|seat| seat.node), each(|seat| seat.pool));
    let spare = if seats[0].spare.is_empty() { String::new() } else { format!(" {}", seats[0].spare) };
    write!(text, "{names}{spare}: {pus} on {nodes}, {pools}").expect(FITS);
}

/// Items with the same key together, in the order of the first of each.
fn groups<T, K: PartialEq>(items: Vec<T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let own = key(&item);
        match groups.iter_mut().find(|(key, _)| *key == own) {
            Some((_, group)) => group.push(item),
            None => groups.push((own, vec![item])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A line as it is shown.
fn shown(line: &str) -> String {
    shortened(&ranges(line))
}

/// A line without its numbers, and with lists of names as one name: equal for lines that differ in these alone.
fn shape(line: &str) -> String {
    let mut bare = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if bare.ends_with('#') => {}
            '0'..='9' => bare.push('#'),
            _ => bare.push(character),
        }
    }
    let mut items: Vec<&str> = Vec::new();
    let mut shape = String::new();
    for item in bare.split(", ") {
        let end = item.find('#').map_or(item.len(), |at| at + 1);
        let again = items.last().is_some_and(|last| is_of_list(last, &item[..end]));
        if again {
            shape += &item[end..];
        } else {
            shape += ", ";
            shape += item;
        }
        items.push(item);
    }
    shape
}

/// Whether a name goes on with the list in which this item stands: words may be before the first name.
fn is_of_list(last: &str, name: &str) -> bool {
    let before = last.strip_suffix(name);
    before.is_some_and(|before| before.is_empty() || before.ends_with([' ', '[']))
}

/// A line whose long lists have their first names, the number of the others, and the last name.
fn shortened(line: &str) -> String {
    let items: Vec<&str> = line.split(", ").collect();
    // Of a range, the first name.
    let first = |item: &str| shape(item.split(" to ").next().unwrap_or(item));
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        let name = first(items[at]);
        let is_more = |item: &&&str| {
            let own = first(item);
            is_of_list(&name, own.trim_start_matches(", "))
        };
        let more = items[at + 1..].iter().take_while(is_more).count();
        if more + 1 > MOST_NAMES {
            parts.extend(items[at..at + SHOWN_NAMES].iter().map(|&item| item.to_owned()));
            let left: u64 = items[at + SHOWN_NAMES..=at + more].iter().map(|item| names_in(item)).sum();
            parts.push(format!("… {left} more"));
        } else {
            parts.extend(items[at..=at + more].iter().map(|&item| item.to_owned()));
        }
        at += more + 1;
    }
    parts.join(", ")
}

/// How many names an item stands for.
fn names_in(item: &str) -> u64 {
    let ends = item.split_once(" to ").and_then(|(first, last)| Some((numbered(first)?.1, leading(last)?.1)));
    ends.map_or(1, |(first, last)| last.saturating_sub(first) + 1)
}

/// A line with `seat1 to seat5` for `seat1, seat2, seat3, seat4, seat5`, whatever stands before the numbers.
fn ranges(line: &str) -> String {
    let items: Vec<&str> = line.split(", ").collect();
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        // Words before the first name of a list are not part of the name, and more may stand behind the last one.
        let first = numbered(items[at]);
        let mut more = 0;
        while let Some((begin, number)) = first {
            let Some((name, next, behind)) = items.get(at + more + 1).and_then(|item| leading(item)) else { break };
            if next != number + 1 + more as u64 || !is_of_list(begin, name) {
                break;
            }
            more += 1;
            if !behind.is_empty() {
                break;
            }
        }
        if more + 1 >= WORTH {
            let (name, number, behind) = leading(items[at + more]).expect("the name goes on");
            let word = name.rsplit(' ').next().unwrap_or(name);
            parts.push(format!("{} to {word}{number}{behind}", items[at]));
        } else {
            parts.extend(items[at..=at + more].iter().map(|&item| item.to_owned()));
        }
        at += more + 1;
    }
    parts.join(", ")
}

/// The number at the end of a name, and the name before it; numbers alone are no names.
fn numbered(text: &str) -> Option<(&str, u64)> {
    let begin = text.trim_end_matches(|character: char| character.is_ascii_digit());
    begin.ends_with(char::is_alphabetic).then_some(())?;
    Some((begin, text[begin.len()..].parse().ok()?))
}

/// The first name of a text, its number, and the rest behind it.
fn leading(text: &str) -> Option<(&str, u64, &str)> {
    let begin = text.find(|character: char| character.is_ascii_digit())?;
    let (name, rest) = text.split_at(begin);
    name.ends_with(char::is_alphabetic).then_some(())?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    Some((name, rest[..end].parse().ok()?, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_row_are_a_range() {
        for (line, expected) in [
            (
                "  2. Oldest of q of seat1, q of seat2, q of seat3, q of seat7",
                "  2. Oldest of q of seat1 to seat3, q of seat7",
            ),
            ("pool0: seat0, seat1, seat2, seat48, seat49", "pool0: seat0 to seat2, seat48, seat49"),
            ("a of seat1, b of seat2, a of seat3", "a of seat1, b of seat2, a of seat3"),
            ("of seat9, of seat10, of seat11", "of seat9 to seat11"),
            ("wakes [pool0, pool1, pool2, pool3], beyond 2 pool4", "wakes [pool0 to pool3], beyond 2 pool4"),
            (
                "  4. Oldest of q of pool1, q of pool2, q of pool3; while it waits, for its own",
                "  4. Oldest of q of pool1 to pool3; while it waits, for its own",
            ),
            ("none", "none"),
            ("costs [1, 2, 3, 4]", "costs [1, 2, 3, 4]"),
        ] {
            assert_eq!(ranges(line), expected);
        }
    }

    #[test]
    fn long_lists_have_their_first_names() {
        let list = |numbers: &[u32]| numbers.iter().map(|at| format!("q of seat{at}")).collect::<Vec<_>>().join(", ");
        let long = format!("  5. Oldest of {}; alone", list(&[1, 9, 3, 7, 5, 11, 20, 21, 22, 23, 40, 50, 60, 70, 80]));
        assert_eq!(
            shown(&long),
            "  5. Oldest of q of seat1, q of seat9, q of seat3, q of seat7, q of seat5, q of seat11, … 8 more, q of \
                seat80; alone"
        );
        let short = format!("  5. Oldest of {}, and more", list(&[1, 9, 3, 7]));
        assert_eq!(shown(&short), short);
        let costs = "a byte costs [10, 16, 12, 16, 10, 9, 8, 7, 6, 5, 4, 3]";
        assert_eq!(shown(costs), "a byte costs [10, 16, 12, 16, 10, 9, … 5 more, 3]");
    }

    #[test]
    fn queues_and_seats_that_differ_in_names_are_told_of_by_the_first() {
        let seats = 40_u32;
        // Each has another order of its neighbours.
        let others = |seat: u32| {
            let names = (1..seats).map(|step| format!("tasks of pool{}", (seat + 7 * step) % seats));
            names.collect::<Vec<_>>().join(", ")
        };
        let queues = (0..seats).map(|at| format!("q{at} tasks of pool{at}: Deque, home node0, wakes [pool{at}]\n"));
        let blocks = (0..seats).map(|at| {
            format!(
                "seat{at}: pu{at} on node0, pool{at}, affinity [pu{at}]\n  immediate to tasks of pool{at}\n  2. Oldest \
                    of {}\n  else sleeps\n",
                others(at)
            )
        });
        let plan: String = ["strategy s\n".to_owned()]
            .into_iter()
            .chain(queues)
            .chain(blocks)
            .chain(["entry: x\n".to_owned()])
            .collect();
        let expected = "strategy s\n\
            q0 tasks of pool0: Deque, home node0, wakes [pool0]\n\
            q1 to q39, tasks of pool1 to pool39: likewise\n\
            seat0: pu0 on node0, pool0, affinity its own\n\
            \x20 immediate to tasks of its pool\n\
            \x20 2. Oldest of tasks of pool7, tasks of pool14, tasks of pool21, tasks of pool28, tasks of pool35, \
            tasks of pool2, … 33 more\n\
            \x20 else sleeps\n\
            seat1 to seat39: pu1 to pu39 on node0, pool1 to pool39; likewise, each in its own order\n\
            entry: x\n";
        assert_eq!(folded(&plan), expected);
    }

    #[test]
    fn seats_that_do_the_same_are_one_block() {
        let seat = |seat: &str, pu: usize, node: usize, affinity: &str, deque: usize, pool: usize| {
            format!(
                "{seat}: pu{pu} on node{node}, pool{node}, affinity {affinity}\n  immediate to deque of seat{deque}; \
                    deferred to pool{pool}\n  else sleeps\n"
            )
        };
        let plan = [
            "strategy s\n".to_owned(),
            seat("seat0", 0, 0, "[pu0]", 0, 0),
            seat("seat1", 1, 0, "[pu1]", 1, 0),
            seat("seat2", 4, 1, "[pu4]", 2, 0),
            seat("seat3 (spare)", 4, 1, "[]", 3, 1),
            "entry: deque of seat0\n".to_owned(),
        ];
        let expected = "strategy s\n\
            seat0, seat1: pu0, pu1 on node0, pool0, affinity its own\n\
            \x20 immediate to deque of itself; deferred to its pool\n  else sleeps\n\
            seat2: pu4 on node1, pool1, affinity its own\n\
            \x20 immediate to deque of itself; deferred to pool0\n  else sleeps\n\
            seat3 (spare): pu4 on node1, pool1, affinity []\n\
            \x20 immediate to deque of itself; deferred to its pool\n  else sleeps\n\
            entry: deque of seat0\n";
        assert_eq!(folded(&plan.concat()), expected);
    }
}
