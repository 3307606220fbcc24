//! Health: patients of villages' hospitals. Some patients are sent on to the hospitals of larger places.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009, after Olden's simulation of
//! Colombia's health care: a tree of villages, and in each step a task for each village. It waits for the tasks of the
//! villages below.
//!
//! We differ: a hospital's lists are states of the persons in its array, visited in order, so a task knows its reads.
//! No more than [`BEDS`] patients of a village wait to be sent on; others are treated in their village. A village has
//! one seed, and not each patient; patients sent on are admitted in the order of their villages; and the root may have
//! more villages below it than others have.

use crate::arrays::{checksum, filled, scaled};
use crate::{Array, Kernel, KernelWorld, Leaf, Task, TaskOrder};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Access;

/// Villages with persons who fall ill. By default a root with 32 villages below it, each with four below it, and these
/// with four each.
#[derive(Clone, Debug)]
pub struct Health {
    /// How many villages are below the root.
    pub regions: usize,
    /// How many are below each other one, but the lowest.
    pub cities: usize,
    /// The number of levels of villages. A village of the lowest level has a hospital with two persons of personnel,
    /// and each level has twice as many as the one below.
    pub levels: u32,
    /// How many inhabitants there are for each person of personnel.
    pub inhabitants: usize,
    /// How many steps are simulated.
    pub days: u32,
    /// The seed of all chances.
    pub seed: u32,
    /// The distribution of the villages; each has allocations of its own.
    pub distribution: Distribution,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            regions: 32,
            cities: 4,
            levels: 4,
            inhabitants: 256,
            days: 30,
            seed: 1,
            distribution: Distribution::Coarse,
        }
    }
}

/// The chance of a healthy person to fall ill on a day, in 65,536ths: 1 %.
const SICK: u32 = 655;
/// The chance that an examination finds a patient to be sick: 10 %.
const CONVALESCES: u32 = 6554;
/// The chance of such a patient to be sent on to a larger hospital: 15 %.
const SENT_ON: u32 = 9830;
/// How many days an examination takes.
const EXAMINED_DAYS: i32 = 3;
/// How many days a treatment takes.
const TREATED_DAYS: i32 = 10;

/// How many patients of a village may be on their way to the next hospital.
const BEDS: usize = 15;

/// How many words a person has: the state, the days left in it, the number of hospitals seen, and of days ill.
const WORDS: usize = 4;

/// The state of a person, or the mark of an array's place without a person.
const NOBODY: i32 = 0;
const HEALTHY: i32 = 1;
const WAITING: i32 = 2;
const EXAMINED: i32 = 3;
const TREATED: i32 = 4;

/// The operations for each person and day: when hospitals treat, two comparisons with states on average, and a sum;
/// when persons fall ill, a comparison, and the eight of a chance. Of a hundred persons, a few take more.
const TREAT_OPERATIONS: u64 = 3;
const ADMIT_OPERATIONS: u64 = 9;

/// The words of an array before its persons: the hospital's free personnel, and the village's random number.
const HEADER: usize = WORDS;
const FREE: usize = 0;
const RANDOM: usize = 1;

/// A village. Its `persons` have a header before them. The first word of `sent`, the patients on their way to the next
/// hospital, is their number.
struct Village<'w> {
    persons: Array<'w, i32>,
    sent: Array<'w, i32>,
    below: Vec<Village<'w>>,
}

/// Whether an event with this chance in 65,536ths happens.
fn happens(random: &mut i32, chance: u32) -> bool {
    // Xorshift: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 2003. Its state is never 0.
    let mut next = random.cast_unsigned();
    next ^= next << 13;
    next ^= next >> 17;
    next ^= next << 5;
    *random = next.cast_signed();
    next >> 16 < chance
}

/// Puts a person into a hospital.
fn admit(person: &mut [i32], free: &mut i32) {
    person[2] += 1;
    if *free > 0 {
        *free -= 1;
        (person[0], person[1]) = (EXAMINED, EXAMINED_DAYS);
    } else {
        person[0] = WAITING;
    }
}

/// A day of all patients: some end a treatment or an examination, and others begin one. `is_below`: the village has a
/// larger hospital above it.
#[inline(never)] // compiled once: the same instructions in every world
fn treat(persons: &mut [i32], sent: &mut [i32], is_below: bool) {
    let (header, persons) = persons.split_at_mut(HEADER);
    let [free, random, ..] = header else { unreachable!("an array has a header") };
    for person in persons.chunks_exact_mut(WORDS) {
        if person[0] < WAITING {
            continue;
        }
        person[3] += 1;
        if person[0] == WAITING {
            if *free > 0 {
                *free -= 1;
                (person[0], person[1]) = (EXAMINED, EXAMINED_DAYS);
            }
            continue;
        }
        person[1] -= 1;
        if person[1] > 0 {
            continue;
        }
        if person[0] == EXAMINED && happens(random, CONVALESCES) {
            let beds = sent[0] as usize;
            if is_below && beds < BEDS && happens(random, SENT_ON) {
                sent[1 + beds * WORDS..][..WORDS].copy_from_slice(person);
                sent[0] += 1;
                person.fill(NOBODY);
                *free += 1;
            } else {
                (person[0], person[1]) = (TREATED, TREATED_DAYS);
            }
        } else {
            person[0] = HEALTHY;
            *free += 1;
        }
    }
}

/// Admits the patients sent from the villages below, as far as there is room, and the newly ill ones.
#[inline(never)] // compiled once: the same instructions in every world
fn fall_ill(persons: &mut [i32], sent: &mut [&mut [i32]]) {
    let (header, persons) = persons.split_at_mut(HEADER);
    let [free, random, ..] = header else { unreachable!("an array has a header") };
    let mut rooms = persons.chunks_exact_mut(WORDS).filter(|room| room[0] == NOBODY);
    for sent in sent.iter_mut() {
        while sent[0] > 0
            && let Some(room) = rooms.next()
        {
            sent[0] -= 1;
            room.copy_from_slice(&sent[1 + sent[0] as usize * WORDS..][..WORDS]);
            admit(room, free);
        }
    }
    for person in persons.chunks_exact_mut(WORDS) {
        if person[0] == HEALTHY && happens(random, SICK) {
            admit(person, free);
        }
    }
}

impl Health {
    /// The number of the personnel of a hospital this many levels above the lowest.
    fn personnel(level: u32) -> usize {
        2 << level
    }

    /// How many persons have room in a village: a quarter more than its inhabitants.
    fn rooms(&self, level: u32) -> usize {
        let inhabitants = Health::personnel(level) * self.inhabitants;
        inhabitants + inhabitants / 4
    }

    /// The villages from one on. Each new one gets the next number.
    fn village<'w, W: KernelWorld>(&self, world: &'w W, level: u32, below: usize, number: &mut u32) -> Village<'w> {
        let inhabitants = Health::personnel(level) * self.inhabitants;
        // Any number but 0, different for each village.
        let random =
            (self.seed.wrapping_mul(0x85EB_CA6B).wrapping_add(*number).wrapping_mul(0x9E37_79B1) | 1).cast_signed();
        *number += 2;
        let word = |at: usize| match at {
            FREE => Health::personnel(level) as i32,
            RANDOM => random,
            _ if at < HEADER => 0,
            _ => i32::from((at - HEADER).is_multiple_of(WORDS) && (at - HEADER) / WORDS < inhabitants) * HEALTHY,
        };
        // One allocation: by turns, the large and the small ones of all villages would lie on different nodes.
        let (len, beds) = (HEADER + self.rooms(level) * WORDS, 1 + BEDS * WORDS);
        let both = filled(world, len + beds, &self.distribution, |at| if at < len { word(at) } else { 0 });
        let (persons, sent) = (both.slice(0..len), both.slice(len..len + beds));
        let below = if level == 0 { 0 } else { below };
        let below = (0..below).map(|_| self.village(world, level - 1, self.cities, number)).collect();
        Village { persons, sent, below }
    }

    /// A day of a village and of those below it.
    fn day<W: KernelWorld>(&self, world: &W, village: &Village<'_>, is_below: bool) {
        let Village { persons, sent, below } = village;
        let rooms = (persons.len() - HEADER) / WORDS;
        let treat_accesses = [persons.changes(0..persons.len()), sent.changes(0..sent.len())];
        let treats = || {
            let leaf = Leaf { name: "treat", flops: TREAT_OPERATIONS * rooms as u64 };
            world.work(leaf, &treat_accesses, || {
                #[expect(unsafe_code, reason = "arrays are shared by tasks")]
                // SAFETY: of a village, only this task runs; and the task of the village above waits for it.
                let (persons, sent) = unsafe { (persons.part_mut(0..persons.len()), sent.part_mut(0..sent.len())) };
                treat(persons, sent, is_below);
            });
        };
        if below.is_empty() {
            treats();
        } else {
            let villages = below.iter().map(Some).chain([None]);
            let tasks = villages.map(|village| {
                let task = village.map_or_else(|| Task::new(treat_accesses), |village| Task::new(village.accesses()));
                let body = move || match village {
                    Some(village) => self.day(world, village, true),
                    None => treats(),
                };
                (task, body)
            });
            world.tasks(TaskOrder::Free, tasks);
        }
        let arrived = below.iter().map(|village| village.sent.changes(0..village.sent.len()));
        let accesses: Vec<Access> = [persons.changes(0..persons.len())].into_iter().chain(arrived).collect();
        world.work(Leaf { name: "admit", flops: ADMIT_OPERATIONS * rooms as u64 }, &accesses, || {
            #[expect(unsafe_code, reason = "arrays are shared by tasks")]
            // SAFETY: the tasks of this village and of those below it are over but for this one.
            let (persons, mut sent) = unsafe {
                let sent = below.iter().map(|village| village.sent.part_mut(0..village.sent.len()));
                (persons.part_mut(0..persons.len()), sent.collect::<Vec<_>>())
            };
            fall_ill(persons, &mut sent);
        });
    }

    /// All villages after the last day.
    fn simulated<'w, W: KernelWorld>(&self, world: &'w W, start: impl FnOnce(), end: impl FnOnce()) -> Village<'w> {
        let root = self.village(world, self.levels.saturating_sub(1), self.regions, &mut 0);
        start();
        (0..self.days).for_each(|_| self.day(world, &root, false));
        end();
        root
    }
}

impl<'w> Village<'w> {
    /// The footprint of a day: its own arrays, and the patients sent by the villages below.
    fn accesses(&self) -> Vec<Access> {
        let sent = self.below.iter().chain([self]).map(|village| village.sent.changes(0..village.sent.len()));
        [self.persons.changes(0..self.persons.len())].into_iter().chain(sent).collect()
    }

    /// The arrays of all villages from this one on.
    fn arrays(&self) -> Vec<Array<'w, i32>> {
        let below = self.below.iter().flat_map(Village::arrays);
        [self.persons, self.sent].into_iter().chain(below).collect()
    }
}

impl Kernel for Health {
    fn name(&self) -> &'static str {
        "health"
    }

    fn distribution(&mut self) -> Option<&mut Distribution> {
        Some(&mut self.distribution)
    }

    fn scale(&mut self, times: f64) {
        self.regions = scaled(self.regions, times);
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        let root = self.simulated(world, start, end);
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe {
            checksum(world, &root.arrays())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    fn words(array: Array<'_, i32>) -> Vec<i32> {
        #[expect(unsafe_code, reason = "arrays are shared by tasks")]
        // SAFETY: all tasks are over.
        unsafe { array.part(0..array.len()) }.to_vec()
    }

    /// The persons of a village, each with its words.
    fn persons(village: &Village<'_>) -> Vec<[i32; WORDS]> {
        let words = words(village.persons);
        let persons = words[HEADER..].chunks_exact(WORDS).map(|person| person.try_into().unwrap());
        persons.filter(|person: &[i32; WORDS]| person[0] != NOBODY).collect()
    }

    #[test]
    fn nobody_is_lost_and_all_personnel_works_or_is_free() {
        fn check(village: &Village<'_>, level: u32) -> (usize, usize) {
            let persons = persons(village);
            let busy = persons.iter().filter(|person| [EXAMINED, TREATED].contains(&person[0])).count();
            assert_eq!(busy + words(village.persons)[FREE] as usize, Health::personnel(level));
            let sent = words(village.sent)[0] as usize;
            let moved = persons.iter().filter(|person| person[2] > 1).count();
            let below = village.below.iter().map(|village| check(village, level - 1));
            below.fold((persons.len() + sent, moved), |(a, b), (c, d)| (a + c, b + d))
        }
        let health = Health { regions: 3, cities: 2, levels: 3, inhabitants: 20, days: 200, ..Health::default() };
        let world = Serial::default();
        let root = health.simulated(&world, || (), || ());
        let inhabitants = 20 * (8 + 3 * (4 + 2 * 2));
        let (found, moved) = check(&root, 2);
        assert_eq!(found, inhabitants);
        assert!(moved > 0, "some persons see several hospitals");
    }

    #[test]
    fn a_hospital_examines_as_many_as_its_personnel() {
        // Two persons of personnel, both free; and five patients, newly arrived.
        let mut words = vec![2, 1, 0, 0];
        for _ in 0..5 {
            let mut person = [HEALTHY, 0, 0, 0];
            admit(&mut person, &mut words[FREE]);
            words.extend(person);
        }
        let states = |words: &[i32]| words[HEADER..].chunks(WORDS).map(|person| person[0]).collect::<Vec<_>>();
        assert_eq!(states(&words), [EXAMINED, EXAMINED, WAITING, WAITING, WAITING]);
        let mut sent = vec![0; 1 + BEDS * WORDS];
        (1..EXAMINED_DAYS).for_each(|_| treat(&mut words, &mut sent, false));
        assert_eq!(states(&words), [EXAMINED, EXAMINED, WAITING, WAITING, WAITING]);
        // On the third day each goes home or is treated. Patients going home make room for the next ones, on the same
        // day.
        treat(&mut words, &mut sent, false);
        let now = states(&words);
        let home = now.iter().filter(|&&state| state == HEALTHY).count();
        assert_eq!(now.iter().filter(|&&state| state == EXAMINED).count(), home);
        assert!(now[..2].iter().all(|state| [HEALTHY, TREATED].contains(state)), "{now:?}");
        assert_eq!((sent[0], words[HEADER + 3]), (0, EXAMINED_DAYS), "days ill are counted");
    }

    #[test]
    fn as_many_fall_ill_as_the_chance_says() {
        let mut random = 12345;
        let days = 100_000;
        let ill = (0..days).filter(|_| happens(&mut random, SICK)).count() as f64;
        let expected = f64::from(days) * f64::from(SICK) / 65536.0;
        assert!((ill - expected).abs() < 4.0 * expected.sqrt(), "{ill}, not about {expected}");
    }
}
