//! Passes the first of equal rows on, as soon as it comes. It has any number of inputs: where rows are dealt by their hash,
//! each replica gets its part from several boxes.

use super::hash_table::mix;
use super::{Outbox, gather, slices};
use vicus_flow::{BoxError, Envelope, Operator, Turn};

pub(crate) struct Distinct {
    seen: Seen,
    outbox: Outbox,
    fresh: Vec<u32>,
    /// How many inputs have not ended, once that is known.
    open: Option<usize>,
}

impl Distinct {
    pub(crate) fn new(columns: usize, limit: usize) -> Distinct {
        let seen = match columns {
            0 => Seen::Nothing(false),
            1 => Seen::One(Set::new()),
            2 => Seen::Two(Set::new()),
            3 => Seen::Three(Set::new()),
            4 => Seen::Four(Set::new()),
            _ => Seen::Many(Wide::new(columns)),
        };
        Distinct { seen, outbox: Outbox::new(columns, limit), fresh: Vec::new(), open: None }
    }

    /// Passes on what is new.
    fn add(&mut self, turn: &mut Turn<'_>, envelope: &Envelope) {
        let columns = slices(envelope);
        let rows = envelope.rows();
        self.fresh.clear();
        match &mut self.seen {
            Seen::Nothing(seen) => {
                if rows > 0 && !std::mem::replace(seen, true) {
                    self.fresh.push(0);
                }
            }
            Seen::One(set) => set.insert_all(&columns, rows, &mut self.fresh),
            Seen::Two(set) => set.insert_all(&columns, rows, &mut self.fresh),
            Seen::Three(set) => set.insert_all(&columns, rows, &mut self.fresh),
            Seen::Four(set) => set.insert_all(&columns, rows, &mut self.fresh),
            Seen::Many(set) => set.insert_all(&columns, rows, &mut self.fresh),
        }
        if self.fresh.len() == rows {
            self.outbox.pass(turn, envelope.clone());
            return;
        }
        if self.fresh.len() > self.outbox.room() {
            self.outbox.flush(turn);
        }
        for (values, column) in self.outbox.columns.iter_mut().zip(&columns) {
            gather(column, &self.fresh, values);
        }
        self.outbox.rows += self.fresh.len();
        if self.outbox.is_due() {
            self.outbox.flush(turn);
        }
    }
}

/// Rows of each width have a table with rows of that width in it; wide rows are stored apart from theirs.
enum Seen {
    /// Without columns all rows are equal.
    Nothing(bool),
    One(Set<1>),
    Two(Set<2>),
    Three(Set<3>),
    Four(Set<4>),
    Many(Wide),
}

impl Seen {
    fn bytes(&self) -> u64 {
        match self {
            Seen::Nothing(_) => 0,
            Seen::One(set) => set.bytes(),
            Seen::Two(set) => set.bytes(),
            Seen::Three(set) => set.bytes(),
            Seen::Four(set) => set.bytes(),
            Seen::Many(set) => (set.rows.capacity() * 8 + set.slots.capacity() * 4) as u64,
        }
    }
}

impl Operator for Distinct {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let mut open = self.open.unwrap_or(turn.inputs());
        for input in 0..turn.inputs() {
            match turn.take(input) {
                Some(pill) if pill.is_pill() => open -= 1,
                Some(envelope) => self.add(turn, &envelope),
                None => continue,
            }
            if open == 0 {
                self.outbox.flush(turn);
                turn.send_pill(0);
            }
        }
        self.open = Some(open);
        turn.holds(self.seen.bytes())?;
        Ok(())
    }
}

/// No id has these bits.
const EMPTY: u64 = u64::MAX;

/// Rows of `N` ids in an open-addressing table. Invariant: at most two of three slots are taken.
struct Set<const N: usize> {
    slots: Vec<[u64; N]>,
    taken: usize,
    /// Where the search for each row of a batch starts.
    starts: Vec<usize>,
}

impl<const N: usize> Set<N> {
    fn new() -> Set<N> {
        Set { slots: vec![[EMPTY; N]; 64], taken: 0, starts: Vec::new() }
    }

    fn bytes(&self) -> u64 {
        (self.slots.capacity() * N * 8) as u64
    }

    fn hash(row: &[u64; N]) -> u64 {
        row.iter().fold(0, |hash, &id| mix(hash ^ id))
    }

    fn insert_all(&mut self, columns: &[&[u64]], rows: usize, fresh: &mut Vec<u32>) {
        while (self.taken + rows) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let row_at = |row: usize| -> [u64; N] { std::array::from_fn(|column| columns[column][row]) };
        self.starts.clear();
        let mut touched = 0;
        for row in 0..rows {
            let start = Self::hash(&row_at(row)) as usize & mask;
            // A load that nothing waits for: it brings the slot near before it is needed.
            touched ^= self.slots[start][0];
            self.starts.push(start);
        }
        std::hint::black_box(touched);
        for row in 0..rows {
            let ids = row_at(row);
            let mut place = self.starts[row];
            loop {
                let slot = &mut self.slots[place];
                if slot[0] == EMPTY {
                    *slot = ids;
                    self.taken += 1;
                    fresh.push(row as u32);
                    break;
                }
                if *slot == ids {
                    break;
                }
                place = (place + 1) & mask;
            }
        }
    }

    fn grow(&mut self) {
        let slots = vec![[EMPTY; N]; self.slots.len() * 2];
        let mask = slots.len() - 1;
        for row in std::mem::replace(&mut self.slots, slots) {
            if row[0] == EMPTY {
                continue;
            }
            let mut place = Self::hash(&row) as usize & mask;
            while self.slots[place][0] != EMPTY {
                place = (place + 1) & mask;
            }
            self.slots[place] = row;
        }
    }
}

/// Rows of any width, one after the other; the table has their numbers.
struct Wide {
    width: usize,
    rows: Vec<u64>,
    /// A row's number and one; 0 for an empty slot. Invariant: at most half of the slots are taken.
    slots: Vec<u32>,
}

impl Wide {
    fn new(width: usize) -> Wide {
        Wide { width, rows: Vec::new(), slots: vec![0; 64] }
    }

    fn hash(row: &[u64]) -> u64 {
        row.iter().fold(0, |hash, &id| mix(hash ^ id))
    }

    fn insert_all(&mut self, columns: &[&[u64]], rows: usize, fresh: &mut Vec<u32>) {
        let mut ids = vec![0; self.width];
        for row in 0..rows {
            let count = self.rows.len() / self.width;
            if (count + 1) * 2 > self.slots.len() {
                self.grow();
            }
            for (id, column) in ids.iter_mut().zip(columns) {
                *id = column[row];
            }
            let mask = self.slots.len() - 1;
            let mut place = Self::hash(&ids) as usize & mask;
            loop {
                match self.slots[place] {
                    0 => {
                        self.slots[place] = u32::try_from(count + 1).expect("fewer than 2^32 distinct rows");
                        self.rows.extend_from_slice(&ids);
                        fresh.push(row as u32);
                        break;
                    }
                    number => {
                        let start = (number as usize - 1) * self.width;
                        if self.rows[start..start + self.width] == ids[..] {
                            break;
                        }
                        place = (place + 1) & mask;
                    }
                }
            }
        }
    }

    fn grow(&mut self) {
        let mut slots = vec![0u32; self.slots.len() * 4];
        let mask = slots.len() - 1;
        for (number, row) in self.rows.chunks(self.width).enumerate() {
            let mut place = Self::hash(row) as usize & mask;
            while slots[place] != 0 {
                place = (place + 1) & mask;
            }
            slots[place] = number as u32 + 1;
        }
        self.slots = slots;
    }
}
