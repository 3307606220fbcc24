//! Authors and editors.
//!
//! A year's authors are newcomers, and people with publications in the year before. Returning authors write the
//! conference papers, some of them many; newcomers write the rest, mostly articles. So most authors of conference
//! papers have an article, but few authors of articles have a conference paper: the queries on both (5a, 5b) and on
//! first publications (6) measure this.

use super::class::Class;
use super::numbers::{Chance, Logistic};
use super::words;
use std::collections::VecDeque;

/// Distinct authors in a year, for each author slot.
const DISTINCT: Logistic = Logistic::new(-0.667, 169.41, 0.0714, 0.84, 1936.0);
/// Newcomers among a year's distinct authors.
const NEW: Logistic = Logistic::new(-0.293, 1740.0, 0.136, 0.628, 1936.0);
/// The used share of the first formula's repeated slots, less a few that only matter in early years; and the used share
/// of the returning authors of both formulas. With all of them, queries 4 and 5 would find too few people and query 6
/// too many; the files of the benchmark's own generator have fewer, too.
const REPEATS: f64 = 0.72;
const REPEATS_LESS: f64 = 10.0;
const RETURNS: f64 = 0.86;
/// The exponent of the number of authors with x papers in a year.
const PRODUCTIVITY: Logistic = Logistic::new(-0.6, 216_223.0, 0.196, 3.078, 1936.0);

/// A person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Person(u32);

impl Person {
    pub(super) const ERDOES: Person = Person(0);
    pub(super) const ERDOES_IRI: &'static str = "http://localhost/persons/Paul_Erdoes";
}

/// All people by number, as far as they matter for this year.
pub(super) struct People {
    /// Makes names differ between seeds.
    seed: u64,
    /// The number of the next new person.
    next: u32,
    /// The first person without written triples.
    unseen: u32,
    /// The first newcomer of this year; all later ones are newcomers.
    first_of_year: u32,
    /// The returned people of the year before.
    returned: Vec<Person>,
    /// The returning people of this year, with the number of papers left to write; the busiest first.
    returning: VecDeque<(Person, u32)>,
    /// Newcomers with papers left to write.
    fresh: VecDeque<(Person, u32)>,
    /// The number of newcomers still to come.
    to_come: usize,
    /// Paper counts above one not taken by returning people.
    busy_to_come: Vec<u32>,
    /// The editors of this year so far.
    editors: Vec<Person>,
}

impl People {
    pub(super) fn new(seed: u64) -> People {
        People {
            seed,
            next: 1,
            unseen: 1,
            first_of_year: 1,
            returned: Vec::new(),
            returning: VecDeque::new(),
            fresh: VecDeque::new(),
            to_come: 0,
            busy_to_come: Vec::new(),
            editors: Vec::new(),
        }
    }

    /// Decides how many papers each author writes in a year with this many papers and author slots.
    pub(super) fn begin_year(&mut self, year: u32, papers: usize, slots: usize, chance: &mut Chance) {
        let newcomers_before = self.first_of_year..self.next;
        self.first_of_year = self.next;
        let returned = std::mem::take(&mut self.returned);
        self.editors.clear();
        self.fresh.clear();

        let promised = DISTINCT.at(year) * slots as f64;
        let repeats = libm::round((slots as f64 - promised) * REPEATS - REPEATS_LESS).max(0.0) as usize;
        let distinct = slots - repeats;
        let wanted = libm::round((1.0 - NEW.at(year)) * promised * RETURNS) as usize;
        let mut counts = busy(year, papers, repeats);
        counts.truncate(distinct);

        // The last year's newcomers first, because most people appear in two years.
        let mut candidates: Vec<Person> = newcomers_before.map(Person).collect();
        chance.shuffle_front(&mut candidates, wanted);
        candidates.extend(returned);
        candidates.truncate(wanted);
        let mut counts = counts.into_iter();
        self.returning = candidates.iter().map(|&person| (person, counts.next().unwrap_or(1))).collect();
        self.to_come = distinct - self.returning.len();
        self.busy_to_come = counts.rev().collect();
        self.returned = candidates;
    }

    /// Draws the authors of a paper, all different, and replaces the contents of `authors` by them.
    pub(super) fn authors(&mut self, class: Class, count: usize, authors: &mut Vec<Person>) {
        authors.clear();
        let conference = class == Class::Inproceedings;
        // Authors with papers left are put back at the end, so no author is drawn twice for one paper.
        let mut again: Vec<(Person, u32, bool)> = Vec::new();
        while authors.len() < count {
            let old = if conference || (self.fresh.is_empty() && self.to_come == 0) {
                self.returning.pop_front()
            } else {
                None
            };
            let (person, left, returns) = match old {
                Some((person, left)) => (person, left, true),
                None => {
                    let (person, left) = self.fresh.pop_front().unwrap_or_else(|| self.newcomer());
                    (person, left, false)
                }
            };
            authors.push(person);
            if left > 1 {
                again.push((person, left - 1, returns));
            }
        }
        for (person, left, returns) in again.into_iter().rev() {
            if returns { &mut self.returning } else { &mut self.fresh }.push_front((person, left));
        }
    }

    /// Draws the editors of a venue or book, all different, and replaces the contents of `editors` by them.
    pub(super) fn editors(&mut self, count: usize, editors: &mut Vec<Person>, chance: &mut Chance) {
        editors.clear();
        while editors.len() < count {
            // Half of the editors edit more than one thing in a year; most of the others are authors.
            let person = if chance.happens(0.5) && !self.editors.is_empty() {
                self.editors[chance.index(self.editors.len())]
            } else if chance.happens(0.7) && !self.returned.is_empty() {
                self.returned[chance.index(self.returned.len())]
            } else {
                self.someone_new()
            };
            // A person drawn twice is replaced by a new one; otherwise a year with one editor would never end.
            let person = if editors.contains(&person) { self.someone_new() } else { person };
            editors.push(person);
            if !self.editors.contains(&person) {
                self.editors.push(person);
            }
        }
    }

    /// Marks a person as named. True the first time.
    pub(super) fn introduce(&mut self, person: Person) -> bool {
        let new = person.0 >= self.unseen;
        // Numbers are given out when a person is first needed, and every new person is named at once, in this order.
        self.unseen = self.unseen.max(person.0 + 1);
        new
    }

    /// Writes first and last name with `between` in the middle, different for every person.
    pub(super) fn write_name(&self, person: Person, between: char, text: &mut String) {
        if person == Person::ERDOES {
            text.push_str("Paul");
            text.push(between);
            text.push_str("Erdoes");
        } else {
            words::write_name(person.0, self.seed, between, text);
        }
    }

    fn newcomer(&mut self) -> (Person, u32) {
        self.to_come = self.to_come.saturating_sub(1);
        (self.someone_new(), self.busy_to_come.pop().unwrap_or(1))
    }

    fn someone_new(&mut self) -> Person {
        self.next += 1;
        Person(self.next - 1)
    }
}

/// The paper counts of the authors with more than one paper in a year, the highest first: `k papers x^(-e) - 5` people
/// write x papers; k is chosen to fill the slots left when every author has written one.
fn busy(year: u32, papers: usize, repeats: usize) -> Vec<u32> {
    const MOST: u32 = 100;
    let exponent = -PRODUCTIVITY.at(year);
    let shares: Vec<f64> = (2..=MOST).map(|x| papers as f64 * libm::pow(f64::from(x), exponent)).collect();
    let people = |k: f64, share: f64| (k * share - 5.0).max(0.0);
    let filled = |k: f64| -> f64 { (2..).zip(&shares).map(|(x, &share)| people(k, share) * f64::from(x - 1)).sum() };
    let (mut low, mut high) = (0.0, 1e6);
    // Fifty halvings exhaust the precision of a double here.
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if filled(middle) < repeats as f64 { low = middle } else { high = middle }
    }
    let mut counts = Vec::new();
    let mut left = repeats;
    for (x, &share) in (2..=MOST).rev().zip(shares.iter().rev()) {
        let number = (libm::round(people(low, share)) as usize).min(left / (x - 1) as usize);
        left -= number * (x - 1) as usize;
        counts.extend(std::iter::repeat_n(x, number));
    }
    // Slots left over by rounding go to people with two papers.
    counts.extend(std::iter::repeat_n(2, left));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_people_fill_the_repeated_slots() {
        for (papers, repeats) in [(20, 3), (300, 40), (11_260, 3_600), (300_000, 120_000)] {
            let counts = busy(1988, papers, repeats);
            assert_eq!(counts.iter().map(|&x| x as usize - 1).sum::<usize>(), repeats);
            assert!(counts.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn authors_of_a_paper_are_different_people() {
        let (mut people, mut chance, mut authors) = (People::new(1), Chance::new(1), Vec::new());
        for year in 1980..1984 {
            people.begin_year(year, 400, 800, &mut chance);
            for paper in 0..400 {
                let class = if paper % 2 == 0 { Class::Article } else { Class::Inproceedings };
                people.authors(class, 1 + paper % 3, &mut authors);
                let mut sorted: Vec<u32> = authors.iter().map(|person| person.0).collect();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), authors.len());
            }
        }
    }
}
