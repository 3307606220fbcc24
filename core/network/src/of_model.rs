//! A model of a program as text: its boxes are closures, so the text says of each that it is local.

use crate::error::Spot;
use crate::parse::RESERVED;
use crate::text::{Body, BoxText, NetworkText, PortText, ViaText};
use std::collections::BTreeSet;
use vicus_flow::Model;

impl NetworkText {
    /// The network of a model that a program has put together, by any boxes. The text of a box is its name and
    /// `local TYPE`, because only that program has its code, and a via has its columns. Another program reads the text,
    /// and names the kind that it lacks when it builds the network; one that adds kinds of these names runs it.
    ///
    /// For a network that was read as text, its own text says more: the kinds, and their parameters.
    ///
    /// ```
    /// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
    /// use vicus_network::{Kinds, MachineCounts, NetworkText};
    ///
    /// let schema = Schema::new([("n", Type::I64)]);
    /// let mut net = ModelBuilder::new("one");
    /// let one = net.source(library::source("one", &schema, || [Envelope::new([vec![1i64].into()])]));
    /// let end = net.add(library::sink("the end", &schema, |_| Ok(())));
    /// net.connect(one.output(0), end.input(0));
    /// net.end(end.output(0));
    /// let model = net.build()?;
    /// let text = NetworkText::of_model(&model).to_string();
    /// assert_eq!(text, "box one = local one;\nbox the_end = local the_end;\none -> the_end : (n: I64);\n");
    /// let read: NetworkText = text.parse()?;
    /// let error = read.build("one", &Kinds::library(), &MachineCounts::default(), &[]).unwrap_err();
    /// assert!(error.message.starts_with("`one` is a local kind"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_model(model: &Model) -> NetworkText {
        // The first box begins a request, and the last one ends it.
        let own = 1..model.boxes().len() - 1;
        let mut taken = BTreeSet::new();
        let names: Vec<String> = model.boxes().iter().map(|one| unlike(&plain(one.name()), &mut taken)).collect();
        let mut body = Body::default();
        for index in own.clone() {
            let one = &model.boxes()[index];
            body.boxes.push(BoxText {
                name: names[index].clone(),
                kind: plain(one.type_name()),
                is_local: true,
                arguments: Vec::new(),
                copies: None,
                on: None,
                at: Spot::default(),
                kind_at: Spot::default(),
                copies_at: Spot::default(),
                on_at: Spot::default(),
            });
        }
        for to in own.clone() {
            let inputs: Vec<_> = model.boxes()[to].sources().collect();
            for (input, (from, output)) in
                inputs.iter().enumerate().filter(|(_, (from, _))| own.contains(&from.index()))
            {
                let outputs: Vec<_> = model.boxes()[from.index()].outputs().collect();
                let port = |name: &String, number: usize, count: usize| PortText {
                    name: name.clone(),
                    number: (count > 1).then_some(number),
                    at: Spot::default(),
                };
                body.vias.push(ViaText {
                    from: port(&names[from.index()], *output, outputs.len()),
                    to: port(&names[to], input, inputs.len()),
                    columns: Some(outputs[*output].0.clone()),
                    keep: None,
                    exchanges: false,
                });
            }
        }
        NetworkText::new(Vec::new(), Vec::new(), body)
    }
}

/// A name as the language has it.
fn plain(name: &str) -> String {
    let mut plain: String = name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect();
    if !plain.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') || RESERVED.contains(&&*plain) {
        plain.insert(0, '_');
    }
    plain
}

/// A name that no other box has.
fn unlike(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut unlike = name.to_owned();
    let mut number = 2;
    while !taken.insert(unlike.clone()) {
        unlike = format!("{name}_{number}");
        number += 1;
    }
    unlike
}
