//! A store with a list of records as its state, driven by a random program, and the states possible after a crash.

use std::fmt;
use std::sync::Arc;
use vicus_disk::{BaseEntry, DiskError, Recovered, StoreFiles};
use vicus_files::{FakeDirectory, FakeDisk};

pub(crate) const KIND: [u8; 8] = *b"records ";

pub(crate) type Records = Vec<Vec<u8>>;

/// Numbers by chance: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
/// 2016).
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}

/// The whole content of a store: that of its base files, then its log.
pub(crate) fn all_of(recovered: &Recovered) -> Result<Records, DiskError> {
    let mut records = Vec::new();
    for base in &recovered.bases {
        let (lengths, bytes) = (base.section("lengths").unwrap(), base.section("bytes").unwrap());
        let mut at = 0;
        for &length in lengths.words(0..lengths.len() / 8)? {
            let end = at + usize::try_from(length).unwrap();
            records.push(bytes.bytes(at..end)?.to_vec());
            at = end;
        }
    }
    assert_eq!(records.len() as u64, recovered.manifest.included, "the base has what the manifest says");
    records.extend(recovered.records.iter().cloned());
    Ok(records)
}

/// Reads a store without writing to it.
pub(crate) fn read(directory: &FakeDirectory) -> Result<Records, DiskError> {
    let recovered = Recovered::read(directory, KIND)?;
    match &recovered.broken {
        Some(broken) => Err(Box::new(broken.damage.clone()).into()),
        None => all_of(&recovered),
    }
}

/// A program's actions on a store, and its knowledge of the store.
pub(crate) struct Run {
    disk: FakeDisk,
    dice: Dice,
    store: Option<StoreFiles>,
    /// Whether the store was created, surely.
    pub(crate) is_created: bool,
    /// All acknowledged records.
    pub(crate) acknowledged: Records,
    /// Groups of records: each may be there behind these, as a whole.
    pub(crate) in_doubt: Vec<Records>,
    /// How many records each base file has, by its manifest's entry.
    bases: Vec<(BaseEntry, usize)>,
    /// The errors told to a program, in order.
    pub(crate) errors: Vec<String>,
}

impl Run {
    pub(crate) fn new(disk: &FakeDisk, seed: u64) -> Run {
        let (disk, dice) = (disk.clone(), Dice::new(seed));
        let (acknowledged, in_doubt, bases, errors) = Default::default();
        Run { disk, dice, store: None, is_created: false, acknowledged, in_doubt, bases, errors }
    }

    /// So many steps by chance. Failures are noted, and the program goes on.
    pub(crate) fn steps(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn step(&mut self) {
        if self.store.is_none() {
            return self.open();
        }
        match self.dice.below(16) {
            0..9 => self.commit(),
            9 | 10 => self.commit_in_two_flights(),
            11 => self.store.as_mut().unwrap().log().rotate(),
            12 | 13 => self.publish(),
            14 => self.store = None,
            _ => {
                // `kill -9`: the system goes on.
                self.disk.kill();
                self.store = None;
            }
        }
    }

    fn note(&mut self, error: &dyn fmt::Display) {
        self.errors.push(error.to_string());
    }

    /// Opens the store, or creates it if there is none, and checks its content.
    pub(crate) fn open(&mut self) {
        self.store = None;
        let directory = Arc::new(self.disk.process(1));
        let opened = match StoreFiles::open(directory.clone(), KIND) {
            Err(DiskError::NoStore(_)) if !self.is_created => StoreFiles::create(directory, KIND, 4711).map(|store| {
                let (bases, records, frames) = Default::default();
                let manifest = store.manifest().clone();
                (store, Recovered { manifest, bases, records, frames, broken: None, torn: None, spoiled: None })
            }),
            opened => opened,
        };
        match opened {
            Ok((mut store, recovered)) => {
                self.is_created = true;
                let found = all_of(&recovered).expect("no page is damaged");
                self.check(&found);
                // Found by a writing process, so it stays.
                (self.acknowledged, self.in_doubt) = (found, Vec::new());
                let lengths = |base: &Arc<vicus_disk::BaseFile>| base.section("lengths").unwrap().len() / 8;
                let entries = recovered.manifest.files.iter().cloned();
                self.bases = entries.zip(recovered.bases.iter().map(lengths)).collect();
                store.log().set_segment_bytes(4000);
                self.store = Some(store);
            }
            Err(error @ (DiskError::File(_) | DiskError::Lock(_))) => self.note(&error),
            Err(error) => panic!("only the system refuses: {error}"),
        }
    }

    /// Whether a store may hold this.
    ///
    /// # Panics
    /// It may not.
    pub(crate) fn check(&self, found: &Records) {
        let acknowledged = &self.acknowledged;
        let Some(more) = found.strip_prefix(&acknowledged[..]) else {
            panic!("{} records are acknowledged, {} are found: {self}", acknowledged.len(), found.len())
        };
        let may = more.is_empty() || self.in_doubt.iter().any(|group| group == more);
        assert!(may, "{} records are there that no group in doubt has: {self}", more.len());
    }

    fn record(&mut self) -> Vec<u8> {
        let length = [0, 3, 40, 700, 1500][self.dice.below(5) as usize];
        let (byte, number) = (self.dice.below(3), self.dice.below(1 << 32));
        let mut record = vec![byte as u8; length as usize];
        // All are different, but for short ones.
        for (place, from) in record.iter_mut().zip(number.to_le_bytes()) {
            *place = from;
        }
        record
    }

    fn records(&mut self) -> Records {
        let count = 1 + self.dice.below(4);
        (0..count).map(|_| self.record()).collect()
    }

    fn commit(&mut self) {
        let group = self.records();
        let log = self.store.as_mut().unwrap().log();
        group.iter().for_each(|record| {
            log.stage(record);
        });
        match log.flush() {
            Ok(durable) => {
                self.acknowledged.extend(group);
                self.in_doubt.clear();
                assert_eq!(durable, self.acknowledged.len() as u64);
            }
            Err(refusal) => {
                self.note(&refusal);
                self.in_doubt.extend(refusal.in_doubt.then_some(group));
            }
        }
    }

    /// The second group is staged while the first flies.
    fn commit_in_two_flights(&mut self) {
        let (first, second) = (self.records(), self.records());
        let log = self.store.as_mut().unwrap().log();
        let first_tickets: Vec<u64> = first.iter().map(|record| log.stage(record)).collect();
        let mut flight = log.take_off().expect("records are staged");
        let second_tickets: Vec<u64> = second.iter().map(|record| log.stage(record)).collect();
        assert!(log.take_off().is_none(), "one flight at a time");
        flight.run();
        let landing = log.land(flight);
        assert_eq!(landing.flown.clone().collect::<Vec<_>>(), first_tickets);
        match landing.outcome {
            Ok(()) => {
                assert!(landing.refused.is_empty());
                self.acknowledged.extend(first);
                self.in_doubt.clear();
                match log.flush() {
                    Ok(_) => self.acknowledged.extend(second),
                    Err(refusal) => {
                        self.note(&refusal);
                        self.in_doubt.extend(refusal.in_doubt.then_some(second));
                    }
                }
            }
            Err(refusal) => {
                assert_eq!(landing.refused.collect::<Vec<_>>(), second_tickets, "they may build on the first");
                assert_eq!(log.flush().unwrap(), self.acknowledged.len() as u64, "nothing is staged any more");
                self.note(&refusal);
                self.in_doubt.extend(refusal.in_doubt.then_some(first));
            }
        }
    }

    /// A new generation: either one base file of all records, or another one beside the present ones.
    fn publish(&mut self) {
        let included = self.acknowledged.len() - (self.dice.below(4) as usize).min(self.acknowledged.len());
        let had = self.bases.iter().map(|(_, records)| records).sum();
        let included = included.max(had);
        let mut files = match self.dice.below(2) {
            0 => Vec::new(),
            _ => self.bases.clone(),
        };
        let from = files.iter().map(|(_, records)| records).sum();
        match self.write_base(from, included) {
            Ok(entry) => files.push((entry, included - from)),
            Err(error) => {
                self.store.as_mut().unwrap().give_up();
                return self.note(&error);
            }
        }
        let entries = files.iter().map(|(entry, _)| entry.clone()).collect();
        match self.store.as_mut().unwrap().publish(included as u64, entries) {
            Ok(()) => self.bases = files,
            Err(error) => self.note(&error),
        }
    }

    fn write_base(&self, from: usize, to: usize) -> Result<BaseEntry, DiskError> {
        let (name, mut writer) = self.store.as_ref().unwrap().write_base("all")?;
        let records = &self.acknowledged[from..to];
        writer.begin("lengths")?;
        writer.write_words(&records.iter().map(|record| record.len() as u64).collect::<Vec<_>>())?;
        writer.begin("bytes")?;
        records.iter().try_for_each(|record| writer.write(record))?;
        Ok(BaseEntry { name, fingerprint: writer.finish()? })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<usize> = self.in_doubt.iter().map(Vec::len).collect();
        write!(f, "groups in doubt {groups:?}, errors {:#?}, disk {:?}", self.errors, self.disk)
    }
}
