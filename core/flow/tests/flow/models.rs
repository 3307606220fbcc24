//! Invalid models, and their authors' errors.

use vicus_flow::{BoxError, BoxModel, ModelBuilder, ModelError, Schema, Turn, Type};

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn named(name: &'static str) -> BoxModel {
    BoxModel::new(name, || |_: &mut Turn<'_>| -> Result<(), BoxError> { Ok(()) })
}

fn pass(name: &'static str) -> BoxModel {
    named(name).input(&numbers()).output(&numbers())
}

fn error(build: impl FnOnce(&mut ModelBuilder)) -> ModelError {
    let mut net = ModelBuilder::new("wrong");
    build(&mut net);
    net.build().expect_err("it is no model")
}

#[test]
fn an_input_without_a_sender_is_named() {
    let error = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        let lonely = net.add(pass("lonely"));
        net.end(source.output(0));
        net.end(lonely.output(0));
    });
    assert_eq!(error, ModelError::InputOpen { input: "input 0 of box lonely".into() });
    assert_eq!(error.to_string(), "input 0 of box lonely has no sender: connect an output to it");
}

#[test]
fn an_input_reads_one_via() {
    let error = error(|net| {
        let source = net.source(named("source").output(&numbers()).output(&numbers()));
        let reader = net.add(pass("reader"));
        net.connect(source.output(0), reader.input(0));
        net.connect(source.output(1), reader.input(0));
        net.end(reader.output(0));
    });
    assert_eq!(error, ModelError::InputTaken { input: "input 0 of box reader".into() });
}

#[test]
fn an_output_without_a_reader_does_not_lead_to_the_end() {
    let error = error(|net| {
        let source = net.source(named("source").output(&numbers()).output(&numbers()));
        net.end(source.output(0));
    });
    assert_eq!(error, ModelError::OutputOpen { output: "output 1 of box source".into() });
}

#[test]
fn a_box_without_inputs_or_without_outputs_is_on_no_path() {
    let no_way_in = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        net.end(source.output(0));
        let spring = net.add(named("spring").output(&numbers()));
        net.end(spring.output(0));
    });
    assert_eq!(no_way_in, ModelError::NotOnAPath { name: "spring".into() });
    let no_way_out = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        let drain = net.add(named("drain").input(&numbers()));
        net.connect(source.output(0), drain.input(0));
    });
    assert_eq!(no_way_out, ModelError::NotOnAPath { name: "drain".into() });
    let no_end = error(|net| {
        net.source(named("source"));
    });
    assert_eq!(no_end, ModelError::NotOnAPath { name: "source".into() });
}

#[test]
fn a_port_or_a_private_column_that_is_not_there_is_named() {
    let no_output = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        net.end(source.output(3));
    });
    assert_eq!(no_output.to_string(), "there is no output 3 of box source");
    let no_input = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        let reader = net.add(pass("reader"));
        net.connect(source.output(0), reader.input(1));
        net.end(reader.output(0));
    });
    assert_eq!(no_input.to_string(), "there is no input 1 of box reader");
    let no_column = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        let reader = net.add(pass("reader"));
        net.connect(source.output(0), reader.input(0)).private([1]);
        net.end(reader.output(0));
    });
    assert_eq!(no_column.to_string(), "there is no column 1 of output 0 of box source (n: U64)");
}

#[test]
fn columns_that_do_not_fit_are_shown() {
    let error = error(|net| {
        let source = net.source(named("source").output(&Schema::new([("word", Type::Text)])));
        let reader = net.add(pass("reader"));
        net.connect(source.output(0), reader.input(0));
        net.end(reader.output(0));
    });
    let text = "output 0 of box source (word: Text) does not fit input 0 of box reader (n: U64)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn envelopes_do_not_go_round() {
    let error = error(|net| {
        let source = net.source(named("source").output(&numbers()));
        let joins = net.add(named("joins").input(&numbers()).input(&numbers()).output(&numbers()));
        let splits = net.add(named("splits").input(&numbers()).output(&numbers()).output(&numbers()));
        net.connect(source.output(0), joins.input(0));
        net.connect(joins.output(0), splits.input(0));
        net.connect(splits.output(0), joins.input(1));
        net.end(splits.output(1));
    });
    let ModelError::Cycle { boxes } = &error else { panic!("expected a cycle, got {error}") };
    let mut sorted = boxes.clone();
    sorted.sort();
    assert_eq!(sorted, ["joins", "splits"]);
}
