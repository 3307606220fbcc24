//! Merging many ascending sequences.

/// The least of several contenders: finding the next one after it was replaced takes as many comparisons as their
/// number has bits. After Knuth, The Art of Computer Programming, volume 3, §5.4.1: a tree of losers.
///
/// ```
/// use vicus_flow::library::Tournament;
///
/// // Sequences from their ends on; one that has ended is greater than all others.
/// let mut sequences = [vec![9, 4, 1], vec![7, 3], vec![8]];
/// let least = |all: &[Vec<u32>; 3], a: usize, b: usize| {
///     let key = |at: usize| all[at].last().map_or((1, 0), |&number| (0, number));
///     key(a) < key(b)
/// };
/// let mut tournament = Tournament::new(3, |a, b| least(&sequences, a, b));
/// let mut merged = Vec::new();
/// while let Some(number) = sequences[tournament.winner()].pop() {
///     merged.push(number);
///     tournament.replay(|a, b| least(&sequences, a, b));
/// }
/// assert_eq!(merged, [1, 3, 4, 7, 8, 9]);
/// ```
#[derive(Debug)]
pub struct Tournament {
    /// At 0 the winner; at each other place the loser of the match between the winners of the places `2 * place` and
    /// `2 * place + 1`. The contenders stand at the places from their number on.
    places: Vec<u32>,
}

impl Tournament {
    /// A tournament of this number of contenders; `less` compares two of them.
    pub fn new(contenders: usize, less: impl Fn(usize, usize) -> bool) -> Tournament {
        let mut places = vec![0; contenders.max(1)];
        let mut winners: Vec<u32> =
            (0..2 * contenders as u32).map(|place| place.wrapping_sub(contenders as u32)).collect();
        for place in (1..contenders).rev() {
            let (a, b) = (winners[2 * place], winners[2 * place + 1]);
            let (winner, loser) = if less(b as usize, a as usize) { (b, a) } else { (a, b) };
            (winners[place], places[place]) = (winner, loser);
        }
        places[0] = winners.get(1).copied().unwrap_or(0);
        Tournament { places }
    }

    /// The least; 0 if there are no contenders.
    #[inline]
    pub fn winner(&self) -> usize {
        self.places[0] as usize
    }

    /// The winner was replaced.
    #[inline]
    pub fn replay(&mut self, less: impl Fn(usize, usize) -> bool) {
        let mut winner = self.places[0];
        let mut place = (winner as usize + self.places.len()) / 2;
        while place > 0 {
            let other = &mut self.places[place];
            if less(*other as usize, winner as usize) {
                std::mem::swap(other, &mut winner);
            }
            place /= 2;
        }
        self.places[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_come_out_in_order() {
        for count in 0..20_usize {
            let mut sequences: Vec<Vec<usize>> =
                (0..count).map(|n| (0..n * 7 % 11).map(|at| at * (n + 3) % 50).collect()).collect();
            sequences.iter_mut().for_each(|sequence| sequence.sort_unstable_by(|a, b| b.cmp(a)));
            let mut expected: Vec<usize> = sequences.iter().flatten().copied().collect();
            expected.sort_unstable();
            // An ended sequence is greater than all others.
            let less = |sequences: &[Vec<usize>], a: usize, b: usize| {
                let key = |at: usize| sequences[at].last().map_or((1, 0), |&item| (0, item));
                key(a) < key(b)
            };
            let mut tournament = Tournament::new(count, |a, b| less(&sequences, a, b));
            let mut merged = Vec::new();
            while let Some(item) = sequences.get_mut(tournament.winner()).and_then(Vec::pop) {
                merged.push(item);
                tournament.replay(|a, b| less(&sequences, a, b));
            }
            assert_eq!(merged, expected);
        }
    }
}
