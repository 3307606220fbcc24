//! A table with UNDEF beside other operands is divided by the bound columns of its rows.

use crate::algebra::{Column, Node, Slot, Slots, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_rdf::Id;

/// A table is divided into at most this many: the group may be planned once for each.
const MOST: usize = 4;

/// The greatest number of columns used to divide a table.
const MOST_COLUMNS: usize = 16;

/// Divides the tables of a join if some of their rows leave a common variable unbound: the rows with the same bound
/// variables among the common ones become a table that always binds them, and the tables a union. Then each of them can
/// look its values up in an index, while possibly unbound values can only be compared with all rows.
pub(crate) fn divide(node: Node) -> Node {
    let Node::Join(mut nodes) = node else { return node };
    for place in 0..nodes.len() {
        let Node::Values { slots, table } = &nodes[place] else { continue };
        if table.columns.iter().all(|column| column.certain) {
            continue;
        }
        let others: Slots = nodes
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != place)
            .flat_map(|(_, node)| node.scope().possible)
            .collect();
        if let Some(divided) = divided(slots, table, &others) {
            nodes[place] = divided;
        }
    }
    Node::Join(nodes)
}

/// `None` if the table always binds its common variables, or if there would be too many tables.
fn divided(slots: &[Slot], table: &Table, others: &Slots) -> Option<Node> {
    let is_unsure = |column: usize| !table.columns[column].certain && others.contains(&slots[column]);
    let unsure: Vec<usize> = (0..slots.len()).filter(|&column| is_unsure(column)).collect();
    if unsure.is_empty() || unsure.len() > MOST_COLUMNS {
        return None;
    }
    // The rows by their bound columns: a bit for each column.
    let mut rows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for row in 0..table.rows {
        let is_bound = |column: usize| table.columns[column].ids[row] != Id::UNBOUND.bits();
        let bound = unsure.iter().enumerate().map(|(place, &column)| u32::from(is_bound(column)) << place).sum();
        rows.entry(bound).or_default().push(row);
        if rows.len() > MOST {
            return None;
        }
    }
    let part = |(bound, rows): (u32, Vec<usize>)| {
        let stays = |column: &usize| match unsure.iter().position(|other| other == column) {
            Some(place) => bound >> place & 1 == 1,
            None => true,
        };
        let kept: Vec<usize> = (0..slots.len()).filter(stays).collect();
        let column = |&column: &usize| Column::new(rows.iter().map(|&row| table.columns[column].ids[row]).collect());
        let columns = kept.iter().map(column).collect();
        Node::Values {
            slots: kept.iter().map(|&column| slots[column]).collect(),
            table: Arc::new(Table { columns, rows: rows.len() }),
        }
    };
    let mut parts: Vec<Node> = rows.into_iter().map(part).collect();
    Some(if parts.len() == 1 { parts.remove(0) } else { Node::Union(parts) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::{At, DEFAULT_GRAPH, Pattern};

    fn values(slots: &[usize], rows: &[&[u64]]) -> Node {
        let column = |place: usize| Column::new(rows.iter().map(|row| row[place]).collect());
        let table = Table { columns: (0..slots.len()).map(column).collect(), rows: rows.len() };
        Node::Values { slots: slots.iter().map(|&slot| Slot(slot)).collect(), table: Arc::new(table) }
    }

    fn pattern(a: usize, b: usize) -> Node {
        Node::Pattern(Pattern([At::Slot(Slot(a)), At::Constant(Id::boolean(true)), At::Slot(Slot(b)), DEFAULT_GRAPH]))
    }

    #[test]
    fn rows_that_bind_the_same_are_a_table_of_their_own() {
        let table = values(&[0, 1], &[&[5, 6], &[0, 7], &[8, 9]]);
        let parts = vec![values(&[1], &[&[7]]), values(&[0, 1], &[&[5, 6], &[8, 9]])];
        assert_eq!(divide(Node::Join(vec![table, pattern(0, 1)])), Node::Join(vec![Node::Union(parts), pattern(0, 1)]));
    }

    #[test]
    fn what_no_other_operand_binds_stays() {
        let node = Node::Join(vec![values(&[0, 1], &[&[5, 6], &[0, 7]]), pattern(1, 2)]);
        assert_eq!(divide(node.clone()), node);
        let never = Node::Join(vec![values(&[0, 1], &[&[0, 6], &[0, 7]]), pattern(0, 1)]);
        assert_eq!(divide(never), Node::Join(vec![values(&[1], &[&[6], &[7]]), pattern(0, 1)]));
    }
}
