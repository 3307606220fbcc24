//! Who writes and edits.
//!
//! A year's authors are newcomers and people who published the year before. Those who return write the conference
//! papers, some of them many; newcomers write what is left, mostly articles. So most authors of conference papers have
//! an article, but few authors of articles a conference paper: that is what the queries on both (5a, 5b) and on first
//! publications (6) measure.

use super::class::Class;
use super::numbers::{Chance, Logistic};
use super::words;
use std::collections::VecDeque;

/// Distinct authors of a year for each author slot.
const DISTINCT: Logistic = Logistic::new(-0.667, 169.41, 0.0714, 0.84, 1936.0);
/// Newcomers among a year's distinct authors.
const NEW: Logistic = Logistic::new(-0.293, 1740.0, 0.136, 0.628, 1936.0);
/// Of the repeated slots that the first formula promises there are this share, less a few that only weigh in early
/// years; of the returning authors that both promise, this share. With all of them queries 4 and 5 would find too few
/// people and query 6 too many; the output of the benchmark's own generator has fewer, too.
const REPEATS: f64 = 0.72;
const REPEATS_LESS: f64 = 10.0;
const RETURNS: f64 = 0.86;
/// The exponent of the number of authors with x papers in a year.
const PRODUCTIVITY: Logistic = Logistic::new(-0.6, 216_223.0, 0.196, 3.078, 1936.0);

/// Someone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Person(u32);

impl Person {
    pub(super) const ERDOES: Person = Person(0);
    pub(super) const ERDOES_IRI: &'static str = "http://localhost/persons/Paul_Erdoes";
}

/// Everyone, by number; what is kept is only who matters this year.
pub(super) struct People {
    /// Makes names differ between seeds.
    seed: u64,
    /// The next person who has not been heard of.
    next: u32,
    /// The first person who has not been introduced in the file.
    unseen: u32,
    /// The first person who appeared this year; all after that one are newcomers.
    first_of_year: u32,
    /// Who returned in the year before.
    returned: Vec<Person>,
    /// Who returns this year, and how many papers they have yet to write; the busiest first.
    returning: VecDeque<(Person, u32)>,
    /// Newcomers with papers yet to write.
    fresh: VecDeque<(Person, u32)>,
    /// How many newcomers are yet to come.
    to_come: usize,
    /// Paper counts above one that those who return do not take.
    busy_to_come: Vec<u32>,
    /// Who has edited something this year.
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

    /// Decides who will write how much in a year with this many papers and author slots.
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

        // The last year's newcomers first: most people are seen in two years.
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

    /// The authors of a paper, all different, in place of what is in `authors`.
    pub(super) fn authors(&mut self, class: Class, count: usize, authors: &mut Vec<Person>) {
        authors.clear();
        let conference = class == Class::Inproceedings;
        // Those who have papers left are put back only at the end, so that nobody is taken twice.
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

    /// The editors of a venue or book, all different, in place of what is in `editors`.
    pub(super) fn editors(&mut self, count: usize, editors: &mut Vec<Person>, chance: &mut Chance) {
        editors.clear();
        while editors.len() < count {
            // Half of them edit more than one thing a year; most of the others are authors.
            let person = if chance.happens(0.5) && !self.editors.is_empty() {
                self.editors[chance.index(self.editors.len())]
            } else if chance.happens(0.7) && !self.returned.is_empty() {
                self.returned[chance.index(self.returned.len())]
            } else {
                self.someone_new()
            };
            // Whoever is drawn twice makes room for someone new, or a year with one editor would never end.
            let person = if editors.contains(&person) { self.someone_new() } else { person };
            editors.push(person);
            if !self.editors.contains(&person) {
                self.editors.push(person);
            }
        }
    }

    /// True the first time that this person is named.
    pub(super) fn introduce(&mut self, person: Person) -> bool {
        let new = person.0 >= self.unseen;
        // Numbers are given out when someone is first needed, and everyone is named at once and in this order.
        self.unseen = self.unseen.max(person.0 + 1);
        new
    }

    /// First and last name with something between them, different for everyone.
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

/// The paper counts of those who write more than one paper a year, the highest first: `k papers x^(-e) - 5` people
/// write x, where k is such that they fill the slots that remain when every author has written one.
fn busy(year: u32, papers: usize, repeats: usize) -> Vec<u32> {
    const MOST: u32 = 100;
    let exponent = -PRODUCTIVITY.at(year);
    let shares: Vec<f64> = (2..=MOST).map(|x| papers as f64 * libm::pow(f64::from(x), exponent)).collect();
    let people = |k: f64, share: f64| (k * share - 5.0).max(0.0);
    let filled = |k: f64| -> f64 { (2..).zip(&shares).map(|(x, &share)| people(k, share) * f64::from(x - 1)).sum() };
    let (mut low, mut high) = (0.0, 1e6);
    // Fifty halvings are more than a double can tell apart here.
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
    // What rounding has left over are people with two papers.
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
