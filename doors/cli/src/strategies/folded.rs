//! A plan's text for people: queues with numbers in a row are named once, and so are seats that do the same.

use std::fmt::Write as _;

/// So many names in a row are worth a range.
const WORTH: usize = 3;

/// The text of a plan with ranges: `tasks of seat1 to seat5`, and a block of lines for all seats that search alike.
/// What is a seat's own, or its pool's, is called so.
pub(super) fn folded(plan: &str) -> String {
    let mut folded = String::new();
    let mut seats: Vec<Seat<'_>> = Vec::new();
    let mut lines = plan.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(mut seat) = Seat::of(line) else {
            write_seats(&mut folded, &mut seats);
            folded += &ranges(line);
            folded.push('\n');
            continue;
        };
        while let Some(own) = lines.next_if(|line| line.starts_with("  ")) {
            seat.search += &ranges(&seat.with_own(own));
            seat.search.push('\n');
        }
        seats.push(seat);
    }
    write_seats(&mut folded, &mut seats);
    folded
}

/// A seat's block: `seat3: pu3 on node0, pool0, affinity [pu3]`, and its lines below.
struct Seat<'a> {
    name: &'a str,
    spare: &'a str,
    pu: &'a str,
    node: &'a str,
    pool: &'a str,
    affinity: String,
    search: String,
}

impl<'a> Seat<'a> {
    fn of(line: &'a str) -> Option<Seat<'a>> {
        let (name, rest) = line.split_once(": ")?;
        let (name, spare) = name.split_once(' ').unwrap_or((name, ""));
        numbered(name).filter(|(word, _)| *word == "seat")?;
        let (pu, rest) = rest.split_once(" on ")?;
        let (node, rest) = rest.split_once(", ")?;
        let (pool, affinity) = rest.split_once(", affinity ")?;
        let affinity = if affinity == format!("[{pu}]") { "its own".to_owned() } else { ranges(affinity) };
        Some(Seat { name, spare, pu, node, pool, affinity, search: String::new() })
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

    fn is_like(&self, other: &Seat<'_>) -> bool {
        (self.spare, &self.affinity, &self.search) == (other.spare, &other.affinity, &other.search)
    }
}

/// The blocks of seats that were read, the first of equal ones for all of them.
fn write_seats(text: &mut String, seats: &mut Vec<Seat<'_>>) {
    let mut rest = std::mem::take(seats);
    while !rest.is_empty() {
        let (alike, others): (Vec<_>, Vec<_>) = rest.iter().enumerate().partition(|(_, seat)| seat.is_like(&rest[0]));
        let each = |of: fn(&Seat<'_>) -> String| {
            let mut names: Vec<String> = alike.iter().map(|(_, seat)| of(seat)).collect();
            names.dedup();
            ranges(&names.join(", "))
        };
        let (names, pus) = (each(|seat| seat.name.to_owned()), each(|seat| seat.pu.to_owned()));
        let (nodes, pools) = (each(|seat| seat.node.to_owned()), each(|seat| seat.pool.to_owned()));
        let Seat { spare, affinity, search, .. } = &rest[0];
        let spare = if spare.is_empty() { String::new() } else { format!(" {spare}") };
        write!(text, "{names}{spare}: {pus} on {nodes}, {pools}, affinity {affinity}\n{search}")
            .expect("a string takes everything");
        let others: Vec<usize> = others.into_iter().map(|(at, _)| at).collect();
        let mut at = 0;
        rest.retain(|_| (others.contains(&at), at += 1).0);
    }
}

/// A line with `seat1 to seat5` for `seat1, seat2, seat3, seat4, seat5`, whatever stands before the numbers.
fn ranges(line: &str) -> String {
    let items: Vec<&str> = line.split(", ").collect();
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        // Words before the first name of a list are not part of the name.
        let first = numbered(items[at]);
        let follows = |(step, item): (usize, &&str)| {
            let (own, next) = (first.as_ref(), numbered(item));
            own.zip(next.as_ref()).is_some_and(|((begin, number), (name, found))| {
                *found == number + 1 + step as u64 && (begin == name || begin.ends_with(&format!(" {name}")))
            })
        };
        let more = items[at + 1..].iter().enumerate().take_while(|&next| follows(next)).count();
        // The last item of a list may have more words behind its number.
        if more + 1 >= WORTH {
            let last = items[at + more];
            let word = last.rsplit(' ').next().unwrap_or(last);
            parts.push(format!("{} to {word}", items[at]));
            at += more + 1;
        } else {
            parts.push(items[at].to_owned());
            at += 1;
        }
    }
    parts.join(", ")
}

/// The number at the end of a name, and the name before it; numbers alone are no names.
fn numbered(text: &str) -> Option<(&str, u64)> {
    let begin = text.trim_end_matches(|character: char| character.is_ascii_digit());
    begin.ends_with(char::is_alphabetic).then_some(())?;
    Some((begin, text[begin.len()..].parse().ok()?))
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
            ("none", "none"),
            ("costs [1, 2, 3, 4]", "costs [1, 2, 3, 4]"),
        ] {
            assert_eq!(ranges(line), expected);
        }
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
