//! Walks over the pairs of rows with equal groups, a batch at a time.

/// The progress of a walk over the pairs of an envelope's rows.
pub(crate) struct Pairs {
    /// The group of each probing row.
    groups: Vec<u32>,
    /// The next pair: its row, and its place in the row's group.
    row: usize,
    member: usize,
}

impl Pairs {
    pub(crate) fn new(groups: Vec<u32>) -> Pairs {
        Pairs { groups, row: 0, member: 0 }
    }

    /// Adds pairs until there are `most`, leaving out finished rows. Returns whether there may be more.
    pub(crate) fn next<'t>(
        &mut self,
        most: usize,
        members: impl Fn(u32) -> &'t [u32],
        is_done: impl Fn(usize) -> bool,
        left: &mut Vec<u32>,
        right: &mut Vec<u32>,
    ) -> bool {
        while self.row < self.groups.len() {
            if !is_done(self.row) {
                let rest = &members(self.groups[self.row])[self.member..];
                let room = most - left.len();
                let taken = &rest[..rest.len().min(room)];
                left.extend(std::iter::repeat_n(self.row as u32, taken.len()));
                right.extend_from_slice(taken);
                if taken.len() < rest.len() {
                    self.member += taken.len();
                    return true;
                }
            }
            self.row += 1;
            self.member = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_comes_once_in_batches_of_any_size() {
        let groups = [vec![10u32, 11, 12], vec![], vec![20]];
        let members = |group: u32| groups.get(group as usize).map_or(&[][..], Vec::as_slice);
        for most in 1..9 {
            let mut pairs = Pairs::new(vec![0, 1, u32::MAX, 2, 0]);
            let (mut all, mut more) = (Vec::new(), true);
            while more {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                more = pairs.next(most, members, |_| false, &mut left, &mut right);
                assert!(left.len() <= most);
                all.extend(left.into_iter().zip(right));
            }
            let expected = [(0, 10), (0, 11), (0, 12), (3, 20), (4, 10), (4, 11), (4, 12)];
            assert_eq!(all, expected, "batches of {most}");
        }
    }
}
