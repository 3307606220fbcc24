//! Mistakes in texts: each error has its place, and says what to do.

use vicus_network::{Kinds, MachineCounts, NetworkText};

/// The error of a text, in which `«` stands before the place that it must name.
fn error(marked: &str) -> String {
    let at = marked.find('«').expect("the place is marked");
    let text = marked.replace('«', "");
    let built = text.parse::<NetworkText>();
    let built = built.and_then(|text| text.build("test", &Kinds::library(), &MachineCounts::default(), &[]));
    let error = built.err().unwrap_or_else(|| panic!("it has no error: {text}"));
    assert_eq!(error.place.offset, Some(at), "{error}");
    let line = text.lines().nth(error.place.line - 1).unwrap();
    let shown: Vec<&str> = error.snippet.lines().collect();
    assert_eq!(shown[0].trim(), line.trim(), "the line is shown");
    assert_eq!(shown[1].find('^'), Some(error.place.column + 1), "{error}");
    error.message
}

#[test]
fn names_that_are_unknown_come_with_the_likely_ones() {
    let kind = error("box n = numbers(to: 3);\nbox f = «filtr(where: \"n > 1\");\nbox s = sink; n -> f -> s;");
    assert!(kind.starts_with("there is no kind `filtr`; did you mean filter?"), "{kind}");
    let parameter = error("box n = numbers(«too: 3); box s = sink; n -> s;");
    assert!(parameter.starts_with("`numbers` has no parameter `too`; did you mean to?"), "{parameter}");
    let name = error("box numb = numbers(to: 3); box s = sink; «nmub -> s;");
    assert_eq!(name, "there is no box `nmub`; did you mean numb?");
    let value = error("param most: integer = 3; box n = numbers(to: «mots); box s = sink; n -> s;");
    assert!(value.starts_with("there is no parameter `mots`; did you mean most?"), "{value}");
    let column =
        error("box n = numbers(to: 3, column: \"age\"); box o = sort(by: \"«agee\"); box s = sink; n -> o -> s;");
    assert!(column.contains("there is no column `agee`; did you mean age?"), "{column}");
}

#[test]
fn values_of_another_type_are_refused() {
    let wrong = error("box n = numbers(to: «\"three\"); box s = sink; n -> s;");
    assert_eq!(wrong, "the parameter `to` of `numbers` is of the type integer, and this is text");
    let default = error("param p: integer = «0.5; box n = numbers(to: p); box s = sink; n -> s;");
    assert_eq!(default, "the value of `p` is expected to be of the type integer, and this is number");
    let copies = error("box n = numbers(to: 3); box s = sink * «0; n -> s;");
    assert_eq!(copies, "0 copies of `s`: from 1 to 4096 are possible");
    let step = error("box n = numbers(to: 3, step: «0); box s = sink; n -> s;");
    assert!(step.contains("the step is at least 1"), "{step}");
    let missing = error("box n = «numbers; box s = sink; n -> s;");
    assert!(missing.starts_with("`numbers` needs the parameter `to` (integer)"), "{missing}");
}

#[test]
fn nodes_are_numbers_of_processes() {
    let other = error("box n = numbers(to: 3) on «every; box s = sink; n -> s;");
    assert!(other.starts_with("`node` is expected behind `on`: `on node 1`, `on node *` for each"), "{other}");
    for wrong in ["nodes«;", "nodes 1, «1;", "nodes 1, «\"a\";", "nodes «-1;"] {
        let message = error(&format!("box n = numbers(to: 3) on {wrong} box s = sink; n -> s;"));
        assert_eq!(message, "numbers of nodes are expected, each once: `on nodes 1, 3`");
    }
    let beyond = error("box n = numbers(to: 3) on nodes «1, 2; box s = sink; n -> s;");
    assert_eq!(beyond, "`n` is to run on node 1: the network runs in one process, 0: name others by `--nodes`");
    for wrong in ["the nodes of «3;", "the nodes of «near;"] {
        let message = error(&format!("box n = numbers(to: 3) on {wrong} box s = sink; n -> s;"));
        assert_eq!(message, "a file is expected: `on the nodes of \"part.csv\"`");
    }
    let text = error("box n = numbers(to: 3) on node «\"far\"; box s = sink; n -> s;");
    assert_eq!(text, "the number of a node is expected: an integer, a parameter, or `*` for each");
    let alone = error("box n = numbers(to: 3) on node «1; box s = sink; n -> s;");
    assert_eq!(alone, "`n` is to run on node 1: the network runs in one process, 0: name others by `--nodes`");
    let number = error("param at: number = 0.5; box n = numbers(to: 3) on node «at; box s = sink; n -> s;");
    assert_eq!(number, "the number of a node is an integer, and this is number");
}

#[test]
fn vias_must_fit() {
    let columns = error("box n = numbers(to: 3); box s = sink; «n -> s : (name: Text);");
    assert_eq!(columns, "`n` sends (n: I64), and the via wants (name: Text)");
    let unlike =
        error("box n = numbers(to: 3); box c = count; box «u = union; box s = sink;\nn -> c -> u; n -> u; u -> s;");
    assert!(unlike.contains("`c` sends (count: U64), and `n` sends (n: I64)"), "{unlike}");
    let open = error("box n = numbers(to: 3); box «j = join(on: \"a.n = 1\"); box s = sink; n -> j -> s;");
    assert!(open.starts_with("input 1 of `j` has no sender"), "{open}");
    let unread = error("box «n = numbers(to: 3);");
    assert!(unread.starts_with("output 0 of `n` has no receiver"), "{unread}");
    let taken = error("box n = numbers(to: 3); box s = sink; n -> s; «n -> s;");
    assert!(taken.starts_with("input 0 of `s` has two senders"), "{taken}");
    let port = error("box n = numbers(to: 3); box s = sink; «n.1 -> s;");
    assert_eq!(port, "`n` has no output 1: it has one, 0");
    let copies = error("box n = numbers(to: 3); box h = hold * 2; box s = sink * 3; n -> h; «h -> s;");
    assert!(copies.starts_with("2 copies of `h` send to 3 copies of `s`"), "{copies}");
}

#[test]
fn circles_are_named() {
    let circle =
        error("box n = numbers(to: 3); box u = union; box h = hold; box s = sink;\nn -> u -> s;\nu -> h;\n«h -> u;");
    assert_eq!(
        circle,
        "rows would go round: h -> u -> h; leave one of these vias out, or repeat a step by one box of the kind \
         `iterate`"
    );
    let itself = error("network a { box b = «a; input -> b -> output; } box n = numbers(to: 3); box x = a; n -> x;");
    assert_eq!(itself, "a network can't contain itself: a -> a");
}

#[test]
fn mistakes_in_expressions_have_their_place() {
    let unknown =
        error("box n = numbers(to: 3); box f = filter(where: \"n > 1 and «m < 3\"); box s = sink; n -> f -> s;");
    assert!(unknown.contains("m"), "{unknown}");
    let syntax = error("box n = numbers(to: 3); box f = filter(where: «\"n >\"); box s = sink; n -> f -> s;");
    assert!(syntax.starts_with("`where` of `f`"), "{syntax}");
    let escape =
        error("box n = numbers(to: 3); box f = filter(where: \"n > 1«) OR (n > 0\"); box s = sink; n -> f -> s;");
    assert!(escape.starts_with("`where` of `f`"), "{escape}");
}

#[test]
fn syntax_says_what_is_expected() {
    assert!(error("box n = numbers(to: 3)\n«box s = sink;").starts_with("`;` is expected behind the box n"));
    assert!(error("box «input = sink;").starts_with("`input` has a meaning of its own"));
    assert!(error("box s = sink; box «s = sink;").starts_with("there are two of the name `s`"));
    assert!(error("box n = numbers(to: «\"3);").starts_with("this text has no end"));
    assert!(error("«-> s;").contains("a `box` or a via"));
    assert!(error("param p: «int = 3;").starts_with("there is no type `int`"));
    assert!(error("box a = local «mine(x: 3);").starts_with("`mine` is a local kind"));
    assert!(error("box n = numbers(to: 3); box s = sink; n -> s : (n: «Tetx);").contains("did you mean Text?"));
}

#[test]
fn a_parameter_without_a_value_is_named() {
    let text: NetworkText = "param most: integer; box n = numbers(to: most); box s = sink; n -> s;".parse().unwrap();
    let build = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        text.build("test", &Kinds::library(), &MachineCounts::default(), &set)
            .map(|_| ())
            .map_err(|error| error.message)
    };
    assert_eq!(build(&[("most", "3")]), Ok(()));
    assert!(build(&[]).unwrap_err().starts_with("`most` has no value: set it (--set most=…)"));
    assert_eq!(
        build(&[("most", "x")]).unwrap_err(),
        "most is set, but `x` is no integer: write an integer such as 1000"
    );
    assert_eq!(
        build(&[("moss", "3")]).unwrap_err(),
        "the network has no parameter `moss` to be set; did you mean most?"
    );
}
