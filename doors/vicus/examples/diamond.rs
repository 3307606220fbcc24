//! A diamond: one output goes to two branches, and a third box joins them again row by row.
//!
//! Both branches get the same envelopes; the columns are shared, not copied. Here both keep pace, so bounded vias are
//! enough. If one branch needs the whole stream first, the via of the other holds it, by overdrafts; `library::hold` on
//! that branch says so from the beginning.
//!
//! `cargo run -p vicus --example diamond`

use vicus::{
    BoxError, BoxModel, Column, Envelope, FlowError, ModelBuilder, Operator, Runtime, Schema, Turn, Type, library,
};

/// Joins two streams of equal blocks: takes a head of each input, and sends their columns side by side.
struct Zip;

impl Operator for Zip {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // With one head alone there is nothing to do: it stays in place, and the other's arrival invokes the box.
        if turn.head(0).is_some() && turn.head(1).is_some() {
            let (left, right) = (turn.take(0).expect("a head"), turn.take(1).expect("a head"));
            if left.is_pill() {
                turn.send_pill(0);
            } else {
                let columns = [left.into_columns(), right.into_columns()].concat();
                turn.send(0, Envelope::new(columns));
            }
        }
        Ok(())
    }
}

fn diamond(blocks: u64) -> Result<Vec<(u64, f64)>, FlowError> {
    let integers = Schema::new([("n", Type::U64)]);
    let roots = Schema::new([("root", Type::F64)]);
    let both = Schema::new([("square", Type::U64), ("root", Type::F64)]);
    let (sent, received) = std::sync::mpsc::channel();

    let mut net = ModelBuilder::new("diamond");
    let block = |block: u64| Envelope::new([Column::from((block * 100..block * 100 + 100).collect::<Vec<u64>>())]);
    let numbers = net.source(library::source("numbers", &integers, move || (0..blocks).map(block)));
    let square = net.add(library::map("square", &integers, &integers, |envelope| {
        let squares: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * n).collect();
        Some(Envelope::new([squares.into()]))
    }));
    let root = net.add(library::map("root", &integers, &roots, |envelope| {
        let roots: Vec<f64> = envelope.column(0).u64s().iter().map(|&n| (n as f64).sqrt()).collect();
        Some(Envelope::new([roots.into()]))
    }));
    let zip = net.add(BoxModel::new("zip", || Zip).input(&integers).input(&roots).output(&both));
    let collect = net.add(library::sink("collect", &both, move |envelope| Ok(sent.send(envelope)?)));
    net.connect(numbers.output(0), square.input(0));
    net.connect(numbers.output(0), root.input(0));
    net.connect(square.output(0), zip.input(0));
    net.connect(root.output(0), zip.input(1));
    net.connect(zip.output(0), collect.input(0));
    net.end(collect.output(0));
    Runtime::builder().start().submit(&net.build().expect("the network above is a model")).wait()?;

    let rows = |envelope: Envelope| -> Vec<(u64, f64)> {
        envelope.column(0).u64s().iter().copied().zip(envelope.column(1).f64s().iter().copied()).collect()
    };
    Ok(received.try_iter().flat_map(rows).collect())
}

fn main() -> Result<(), FlowError> {
    let rows = diamond(1)?;
    println!("{:?}", &rows[..5]);
    Ok(())
}

#[test]
fn both_branches_meet_row_by_row() {
    let rows = diamond(200).unwrap();
    assert_eq!(rows.len(), 20_000);
    assert!(
        rows.iter().enumerate().all(|(n, &(square, root))| { square == (n * n) as u64 && root == (n as f64).sqrt() })
    );
}
