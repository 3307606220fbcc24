//! Texts, trees and JSON say the same, both ways.

use proptest::prelude::*;
use std::sync::Arc;
use vicus_flow::{Envelope, Field, ModelBuilder, Schema, TimeUnit, Type, library};
use vicus_network::{
    Argument, Body, BoxSpec, BoxText, Kinds, MachineCounts, NetworkText, OnNode, ParameterType, ParameterValue,
    PortText, Ports, Spot, SubNetwork, TextParameter, ViaText, parse_schema, schema_text,
};

fn unit() -> impl Strategy<Value = TimeUnit> {
    prop::sample::select(TimeUnit::ALL.to_vec())
}

fn zone() -> impl Strategy<Value = Option<Arc<str>>> {
    prop_oneof![
        Just(None),
        prop::sample::select(vec!["UTC", "Europe/Prague", "+01:00", "-05:30", "Etc/GMT-5", "5a", "a \"b\""])
            .prop_map(|zone| Some(zone.into())),
    ]
}

fn kind() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        prop::sample::select(Type::SIMPLE.to_vec()),
        unit().prop_map(Type::Time),
        unit().prop_map(Type::Duration),
        (unit(), zone()).prop_map(|(unit, zone)| Type::Timestamp(unit, zone)),
        (1u8..=38, any::<i8>()).prop_map(|(precision, scale)| Type::Decimal { precision, scale }),
        any::<u32>().prop_map(Type::FixedBinary),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            prop::collection::vec(("[a-z]{1,4}", inner, any::<bool>()), 0..3).prop_map(|fields| {
                let fields =
                    fields.into_iter().map(|(name, kind, nullable)| Field { nullable, ..Field::new(name, kind) });
                Type::Struct(Arc::new(fields.collect()))
            }),
        ]
    })
}

fn schema() -> impl Strategy<Value = Schema> {
    let name =
        prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,5}", "\\PC{0,5}", Just("or".to_owned()), Just("a\n\"\\".to_owned())];
    prop::collection::vec((name, kind(), any::<bool>()), 0..4).prop_map(|fields| {
        fields.into_iter().map(|(name, kind, nullable)| Field { nullable, ..Field::new(name, kind) }).collect()
    })
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,5}".prop_map(|name| format!("x{name}"))
}

fn value() -> impl Strategy<Value = ParameterValue> {
    prop_oneof![
        any::<i64>().prop_map(ParameterValue::Integer),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(ParameterValue::Number),
        any::<bool>().prop_map(ParameterValue::Boolean),
        any::<String>().prop_map(ParameterValue::Text),
        schema().prop_map(ParameterValue::Columns),
    ]
}

fn any_value() -> impl Strategy<Value = ParameterValue> {
    prop_oneof![4 => value(), 1 => name().prop_map(ParameterValue::Name)]
}

/// The items of which no two have one name.
fn unlike<T>(items: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
    let mut seen = std::collections::BTreeSet::new();
    items.into_iter().filter(|item| seen.insert(name(item))).collect()
}

fn parameters() -> impl Strategy<Value = Vec<TextParameter>> {
    let parameter = (name(), value(), any::<bool>()).prop_map(|(name, value, has_default)| TextParameter {
        name,
        kind: value.kind().expect("it is a value"),
        default: has_default.then_some(value),
        at: Spot::default(),
    });
    prop::collection::vec(parameter, 0..3).prop_map(|all| unlike(all, |one| one.name.clone()))
}

fn body() -> impl Strategy<Value = Body> {
    let argument = (name(), any_value()).prop_map(|(name, value)| Argument {
        name,
        value,
        at: Spot::default(),
        value_at: Spot::default(),
    });
    let arguments = prop::collection::vec(argument, 0..3).prop_map(|all| unlike(all, |one| one.name.clone()));
    let copies = prop_oneof![
        Just(None),
        (1i64..9).prop_map(|count| Some(ParameterValue::Integer(count))),
        Just(Some(ParameterValue::Name("threads".to_owned()))),
    ];
    let on = prop_oneof![
        2 => Just(None),
        1 => Just(Some(OnNode::Each)),
        1 => "[a-z \"]{1,9}".prop_map(|file| Some(OnNode::Of(file))),
        1 => prop::collection::btree_set(0usize..99, 1..4)
            .prop_map(|nodes| Some(OnNode::These(nodes.into_iter().collect()))),
        1 => (0i64..9).prop_map(|number| Some(OnNode::One(ParameterValue::Integer(number)))),
        1 => name().prop_map(|name| Some(OnNode::One(ParameterValue::Name(name)))),
    ];
    let one = (name(), name(), any::<bool>(), arguments, copies, on);
    let one = one.prop_map(|(name, kind, is_local, arguments, copies, on)| BoxText {
        name,
        kind,
        is_local,
        arguments,
        copies,
        on,
        at: Spot::default(),
        kind_at: Spot::default(),
        copies_at: Spot::default(),
        on_at: Spot::default(),
    });
    let boxes = prop::collection::vec(one, 0..4).prop_map(|all| unlike(all, |one| one.name.clone()));
    let port = || {
        (name(), prop::option::of(0usize..4096)).prop_map(|(name, number)| PortText {
            name,
            number,
            at: Spot::default(),
        })
    };
    let via = (port(), port(), prop::option::of(schema()), prop::option::of(1usize..70), any::<bool>())
        .prop_map(|(from, to, columns, keep, exchanges)| ViaText { from, to, columns, keep, exchanges });
    (boxes, prop::collection::vec(via, 0..4)).prop_map(|(boxes, vias)| Body { boxes, vias })
}

fn text() -> impl Strategy<Value = NetworkText> {
    let network = (name(), parameters(), body()).prop_map(|(name, parameters, body)| SubNetwork {
        name,
        parameters,
        body,
        at: Spot::default(),
    });
    let networks = prop::collection::vec(network, 0..3).prop_map(|all| unlike(all, |one| one.name.clone()));
    (parameters(), networks, body())
        .prop_map(|(parameters, networks, body)| NetworkText::new(parameters, networks, body))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn columns_are_read_as_they_are_printed(schema in schema()) {
        let text = schema_text(&schema);
        prop_assert_eq!(parse_schema(&text).map_err(|error| TestCaseError::fail(error.to_string()))?, schema);
    }

    #[test]
    fn networks_are_read_as_they_are_printed(network in text()) {
        let printed = network.to_string();
        let read: NetworkText = printed.parse().map_err(|error| TestCaseError::fail(format!("{error}\n{printed}")))?;
        prop_assert_eq!(&read, &network);
        prop_assert_eq!(read.to_string(), printed);
    }

    #[test]
    fn json_has_the_same_network(network in text()) {
        let json = network.to_json();
        let read = NetworkText::from_json(&json).map_err(|error| TestCaseError::fail(format!("{error}\n{json}")))?;
        prop_assert_eq!(read.to_json(), json);
        prop_assert_eq!(read, network);
    }
}

#[test]
fn plain_columns_are_printed_as_schemas_are() {
    let text = "(n: I64, name: Text or null, at: Timestamp(us, Europe/Prague), d: Decimal(12, 2), \
                parts: List(Struct(x: F64, y: F64 or null)))";
    let schema = parse_schema(text).unwrap();
    assert_eq!((schema.to_string().as_str(), schema_text(&schema).as_str()), (text, text));
}

/// A model of closures is printed, read back from text and from JSON, and tells the missing kinds one by one.
#[test]
fn a_model_of_closures_is_printed_as_local() {
    let schema = Schema::new([("n", Type::I64), ("a b", Type::Text)]);
    let mut net = ModelBuilder::new("closures");
    let source = net.source(library::source("threads", &schema, std::iter::empty::<Envelope>));
    let split = net.add(library::spread(&schema, 2));
    net.connect(source.output(0), split.input(0));
    let both = net.add(library::union(&schema, 2));
    for part in 0..2 {
        let pass = net.add(library::map("pass on!", &schema, &schema, Some));
        net.connect(split.output(part), pass.input(0));
        net.connect(pass.output(0), both.input(part));
    }
    let end = net.add(library::sink("2 ends", &schema, |_| Ok(())));
    net.connect(both.output(0), end.input(0));
    net.end(end.output(0));
    let text = NetworkText::of_model(&net.build().unwrap());
    let printed = text.to_string();
    let wanted = "box _threads = local _threads;\nbox spread = local spread;\nbox union = local union;\n\
                  box pass_on_ = local pass_on_;\nbox pass_on__2 = local pass_on_;\nbox _2_ends = local _2_ends;\n\
                  _threads -> spread : (n: I64, \"a b\": Text);\n";
    assert!(printed.starts_with(wanted), "{printed}");
    for via in ["spread.1 -> pass_on__2", "pass_on__2 -> union.1", "union -> _2_ends"] {
        assert!(printed.contains(via), "{printed}");
    }
    let read: NetworkText = printed.parse().unwrap();
    assert_eq!(read, text);
    assert_eq!(NetworkText::from_json(&text.to_json()).unwrap(), text);
    let mut kinds = Kinds::library();
    let missing = |kinds: &Kinds| {
        let error = read.build("closures", kinds, &MachineCounts::default(), &[]).unwrap_err();
        (
            error.message.split('`').nth(1).unwrap().to_owned(),
            error.message.contains("is a local kind"),
            error.place.line,
        )
    };
    assert_eq!(missing(&kinds), ("_threads".to_owned(), true, 1));
    let mine = BoxSpec::new("_threads", "Nothing.").ports(Ports::Exactly(0), Ports::Exactly(1)).local();
    kinds.add(mine);
    // `spread` and `union` are kinds of the library, too.
    assert_eq!(missing(&kinds), ("pass_on_".to_owned(), true, 4));
}

#[test]
fn json_of_another_version_is_refused() {
    let text: NetworkText = "box n = numbers(to: 3); box s = sink; n -> s;".parse().unwrap();
    let json = text.to_json();
    assert!(json.contains("\"version\": 1"), "{json}");
    let error = NetworkText::from_json(&json.replace("\"version\": 1", "\"version\": 2")).unwrap_err();
    assert_eq!(error.message, "the network has the version 2, and this program reads version 1");
    let name = NetworkText::from_json(&json.replace("\"name\": \"n\"", "\"name\": \"n n\"")).unwrap_err();
    assert!(name.place.is_known(), "{name}");
    assert_eq!(ParameterType::ALL.map(ParameterType::name).len(), 5);
}
