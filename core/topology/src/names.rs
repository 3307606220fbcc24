//! Names that a user's misspelled one may stand for: of columns, of variables. They stand below all crates that read
//! texts of users.

/// The items whose names are most similar to this one, the nearest first, three at most: those within a third of its
/// letters by edit distance.
///
/// ```
/// use vicus_topology::names::similar_names;
///
/// let columns = ["name", "score"];
/// assert_eq!(similar_names("nmae", columns.map(|column| (column, column))), ["name"]);
/// ```
pub fn similar_names<'n, T: Ord>(name: &str, items: impl IntoIterator<Item = (&'n str, T)>) -> Vec<T> {
    let wanted = name.to_lowercase();
    let most = (wanted.chars().count() / 3).max(1);
    let distance = |(other, item): (&'n str, T)| (edits(&wanted, &other.to_lowercase()), item);
    let mut close: Vec<(usize, T)> =
        items.into_iter().map(distance).filter(|(distance, _)| *distance <= most).collect();
    close.sort_unstable();
    close.dedup();
    close.into_iter().take(3).map(|(_, item)| item).collect()
}

/// "; did you mean a or b?", or nothing.
pub fn suggestion(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// Insertions, deletions, replacements and swaps of neighbours between two words of bounded length.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if is_swap { least.min(rows[i - 2][j - 2] + 1) } else { least }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_slip_are_near() {
        let names = ["customer", "orders", "lineitem", "id"].map(|name| (name, name));
        assert_eq!(similar_names("costumer", names), ["customer"]);
        assert_eq!(similar_names("ORDER", names), ["orders"]);
        assert_eq!(similar_names("lineitme", names), ["lineitem"]);
        assert!(similar_names("region", names).is_empty());
    }
}
