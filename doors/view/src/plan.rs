//! The plan of a run as a matrix of seats and queues, and as its text. Its queues and steps are read from the text.

use crate::floor::Places;
use crate::html::Escaped;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use vicus_trace::Header;

/// More rows or columns could not be read.
const MOST_SEATS: usize = 64;
const MOST_QUEUES: usize = 512;

/// The part of a plan about one seat.
#[derive(Default)]
struct SeatSteps {
    /// The steps of its search that take from a queue, by queue.
    takes: FxHashMap<usize, Vec<u32>>,
    /// The queues for its immediate and its deferred tasks.
    puts: [Option<usize>; 2],
}

/// The queues of a plan's text, and the steps of its seats.
struct Steps<'a> {
    queues: Vec<&'a str>,
    seats: Vec<SeatSteps>,
}

fn number(text: &str) -> Option<u32> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl<'a> Steps<'a> {
    fn of(text: &'a str) -> Steps<'a> {
        let mut queues = Vec::new();
        let mut known: FxHashMap<&str, usize> = FxHashMap::default();
        let mut seats: Vec<SeatSteps> = Vec::new();
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once(' ').filter(|(q, _)| q.strip_prefix('q').is_some_and(is_number)) {
                let name = rest.split_once(": ").map_or(rest, |(name, _)| name);
                known.insert(name, queues.len());
                queues.push(name);
            } else if line.strip_prefix("seat").and_then(number).is_some() {
                seats.push(SeatSteps::default());
            } else if let (Some(words), Some(seat)) = (line.strip_prefix("  "), seats.last_mut()) {
                // A name may be followed by a condition.
                let find = |word: &str| {
                    let end = ["; ", " if longer than "].iter().filter_map(|end| word.find(end)).min();
                    known.get(word).or_else(|| known.get(&word[..end?])).copied()
                };
                if let Some(rest) = words.strip_prefix("immediate to ") {
                    let deferred = rest.split_once("; deferred to ");
                    seat.puts = [find(rest), deferred.and_then(|(_, rest)| find(rest))];
                } else if let (Some(rule), Some((_, list))) = (number(words), words.split_once(" of ")) {
                    let list = list.strip_prefix("round robin ").unwrap_or(list);
                    for queue in list.split(", ").map_while(find) {
                        seat.takes.entry(queue).or_default().push(rule);
                    }
                }
            } else if !line.starts_with(' ') && !seats.is_empty() {
                break;
            }
        }
        Steps { queues, seats }
    }

    /// The seats that are drawn: all of them, or where these are too many, the first one of each core group or node.
    fn rows(&self, header: &Header) -> (Vec<usize>, &'static str) {
        let all: Vec<usize> = (0..self.seats.len()).collect();
        if all.len() <= MOST_SEATS {
            return (all, "");
        }
        let place = |seat: usize| header.seats.get(seat).map(|info| (info.node.index(), info.group.index()));
        for (of, note) in
            [(false, "Of each core group, the first seat is drawn."), (true, "Of each node, the first seat is drawn.")]
        {
            let mut seen = Vec::new();
            let mut rows = all.clone();
            rows.retain(|seat| {
                let place = place(*seat).map(|(node, group)| (node, if of { 0 } else { group }));
                let is_new = seen.len() <= MOST_SEATS && !seen.contains(&place);
                seen.extend(is_new.then_some(place));
                is_new
            });
            if rows.len() <= MOST_SEATS {
                return (rows, note);
            }
        }
        (Vec::new(), "")
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit())
}

/// The matrix of a plan, if its text has seats and queues, and not too many.
pub(crate) fn matrix(header: &Header, id: &str, places: &mut Places, out: &mut String) {
    let steps = Steps::of(&header.plan);
    let (rows, note) = steps.rows(header);
    let count = steps.queues.len();
    if rows.is_empty() || count == 0 || count > MOST_QUEUES {
        return;
    }
    _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"matrix\" id=\"{id}\"><caption>Seats and queues: a \
         number is the step of a seat’s search that takes from the queue; ● gets its immediate tasks, ○ its \
         deferred ones. {note}</caption><thead><tr><th scope=\"col\">seat</th>"
    );
    for (queue, name) in steps.queues.iter().enumerate() {
        let takers: Vec<usize> =
            (0..steps.seats.len()).filter(|seat| steps.seats[*seat].takes.contains_key(&queue)).collect();
        _ = write!(out, "<th scope=\"col\"{}><span>{}</span></th>", places.next(&takers), Escaped(name));
    }
    out.push_str("</tr></thead><tbody>");
    for seat in rows {
        let SeatSteps { takes, puts } = &steps.seats[seat];
        _ = write!(out, "<tr data-seat=\"{seat}\"><th scope=\"row\">seat {seat}</th>");
        let cell = |queue: usize| {
            let put = |at: usize| puts[at] == Some(queue);
            (takes.get(&queue).map_or(&[][..], |rules| &rules[..]), [put(0), put(1)])
        };
        let mut queue = 0;
        while queue < count {
            let now = cell(queue);
            // Neighbours alike are one cell.
            let wide = (queue..count).take_while(|other| cell(*other) == now).count();
            queue += wide;
            let (rules, [immediate, deferred]) = now;
            let span = if wide > 1 { format!(" colspan=\"{wide}\"") } else { String::new() };
            let all = rules.iter().map(u32::to_string).collect::<Vec<_>>();
            let attribute = match rules.first() {
                Some(first) => {
                    format!(" class=\"c{}\" data-seat=\"{seat}\" data-rule=\"{}\"", first % 7, all.join(" "))
                }
                None => String::new(),
            };
            let marks = format!("{}{}", if immediate { "●" } else { "" }, if deferred { "○" } else { "" });
            _ = write!(out, "<td{span}{attribute}>{}{marks}</td>", all.join(" "));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// A plan's text, with the seats and rules that the viewer can mark.
pub(crate) fn text(plan: &str) -> String {
    let mut out = String::from("<pre class=\"plan\">");
    let mut seat = None;
    for line in plan.lines() {
        if !line.starts_with(' ') {
            seat = line.strip_prefix("seat").and_then(number);
        }
        let rule = number(line.trim_start()).filter(|_| line.starts_with(' '));
        let seat = seat.map_or(String::new(), |seat| format!(" data-seat=\"{seat}\""));
        let rule = rule.map_or(String::new(), |rule| format!(" data-rule=\"{rule}\""));
        _ = writeln!(out, "<span{seat}{rule}>{}</span>", Escaped(line));
    }
    out.push_str("</pre>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_rules_belong_to_their_seat() {
        let shown = text("strategy <x>\nseat12 (spare): pu0\n  immediate to q\n  3. Oldest\nentry");
        let expected = "<pre class=\"plan\"><span>strategy &lt;x&gt;</span>\n<span data-seat=\"12\">seat12 (spare): \
                        pu0</span>\n<span data-seat=\"12\">  immediate to q</span>\n<span data-seat=\"12\" \
                        data-rule=\"3\">  3. Oldest</span>\n<span>entry</span>\n</pre>\n";
        assert_eq!(shown, expected);
    }

    /// Two seats with a stack each and a queue in common; the second seat robs the first one's stack last.
    const PLAN: &str = "strategy made up\n\
        q0 own <0>: Stack, home node0, pushed by seat0 alone, wakes [pool0]\n\
        q1 own 1: Stack, home node0, wakes [pool0]\n\
        q2 common: Fifo, home node0, wakes [pool0]\n\
        pool0: seat0, seat1\n\
        seat0: pu0 on node0, pool0, affinity Pu\n\
        \x20 immediate to own <0>; deferred to common; immediate ones that are no boxes to own 1\n\
        \x20 1. Youngest of own <0>\n\
        \x20 2. Oldest of round robin common, own 1 if longer than [2]; while it waits for a task, of that\n\
        \x20 else sleeps after 5 ns\n\
        seat1 (spare): pu1 on node0, pool0, affinity Pu\n\
        \x20 immediate to common; deferred to common\n\
        \x20 1. Youngest of own 1, common, the rest to own 1\n\
        \x20 4. Oldest of common, own <0>\n\
        \x20 else sleeps after 5 ns\n\
        entry: common\n";

    #[test]
    fn the_matrix_has_the_steps_and_the_puts_of_each_seat() {
        let header = Header { plan: PLAN.to_owned(), ..Header::for_seats(2) };
        let mut out = String::new();
        matrix(&header, "m", &mut Places::default(), &mut out);
        let (_, body) = out.split_once("<tbody>").unwrap();
        let expected = "<tr data-seat=\"0\"><th scope=\"row\">seat 0</th>\
            <td class=\"c1\" data-seat=\"0\" data-rule=\"1\">1●</td>\
            <td class=\"c2\" data-seat=\"0\" data-rule=\"2\">2</td>\
            <td class=\"c2\" data-seat=\"0\" data-rule=\"2\">2○</td></tr>\
            <tr data-seat=\"1\"><th scope=\"row\">seat 1</th>\
            <td class=\"c4\" data-seat=\"1\" data-rule=\"4\">4</td>\
            <td class=\"c1\" data-seat=\"1\" data-rule=\"1\">1</td>\
            <td class=\"c1\" data-seat=\"1\" data-rule=\"1 4\">1 4●○</td></tr></tbody></table></div>\n";
        assert_eq!(body, expected);
        // A queue is a place of the seats that take from it.
        assert!(out.contains("<th scope=\"col\" data-place=\"0\" data-seats=\"0 1\"><span>own &lt;0&gt;</span></th>"));
    }

    #[test]
    fn many_seats_are_drawn_by_core_group_and_texts_of_others_not_at_all() {
        let mut header = Header::for_seats(100);
        header.plan = "q0 all: Fifo\n".to_owned();
        for seat in 0..100 {
            header.plan += &format!("seat{seat}: pu0\n  1. Oldest of all\n");
            header.seats[seat].group = vicus_topology::GroupId::new(seat / 10);
        }
        let mut out = String::new();
        matrix(&header, "m", &mut Places::default(), &mut out);
        assert_eq!(out.matches("<tr data-seat").count(), 10);
        assert!(out.contains("first seat is drawn"));
        for plan in ["", "strategy x", "q0 a: b\n", "seat0: pu0\n  1. x of y", "q: \n  \nseat\nq9 \n seat3"] {
            let mut out = String::new();
            let header = Header { plan: plan.to_owned(), ..Header::for_seats(1) };
            matrix(&header, "m", &mut Places::default(), &mut out);
            assert_eq!(out, "", "{plan}");
        }
    }
}
