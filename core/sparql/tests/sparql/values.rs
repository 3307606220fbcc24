//! The values of operators, functions and casts. The tables are the examples of the recommendations, and consequences
//! of their rules; each names its source.

use crate::rows::rows_of;
use oxrdf::Term;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, parse, plan};

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// `1 integer`, `"text"`, `"text"@en`, `<iri>`, or `error`.
pub(crate) fn value_of(expression: &str) -> String {
    let snapshot = Arc::new(Snapshot::of_ntriples(b"").expect("good N-Triples"));
    let text = format!("PREFIX xsd: <{XSD}> SELECT ({expression} AS ?value) {{}}");
    let parsed = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let plan = plan(&snapshot, &parsed, PlanOptions::default()).expect("supported");
    let rows = rows_of(&plan, |_| 0);
    match &rows[0][0] {
        None => "error".to_owned(),
        Some(Term::Literal(literal)) => match literal.datatype().as_str().strip_prefix(XSD) {
            Some("string") | None => literal.to_string(),
            Some(name) => format!("{} {name}", literal.value()),
        },
        Some(term) => term.to_string(),
    }
}

/// A string as SPARQL writes it.
pub(crate) fn literal_of(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", escaped.replace('\r', "\\r"))
}

/// Each pair is an expression and its value.
#[track_caller]
fn assert_values(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .map(|(expression, value)| (expression, value, value_of(expression)))
        .filter(|(_, value, found)| found != *value)
        .map(|(expression, value, found)| format!("{expression} is {value} and not {found}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each pair is a comparison and `true`, `false` or `error`.
#[track_caller]
fn assert_comparisons(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .map(|(expression, value)| (expression, value, value_of(expression)))
        .filter(|(_, value, found)| found.strip_suffix(" boolean").unwrap_or(found) != **value)
        .map(|(expression, value, found)| format!("{expression} is {value} and not {found}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What happened: a decimal had 18 digits after its point, and a product or quotient with more digits was unbound.
#[test]
fn decimals_are_exact_or_rounded_to_eighteen_digits() {
    assert_values(&[
        ("1/3", "0.333333333333333333 decimal"),
        ("2/3", "0.666666666666666667 decimal"),
        ("-2/3", "-0.666666666666666667 decimal"),
        ("10/3", "3.333333333333333333 decimal"),
        ("(1/3)*(1/3)", "0.111111111111111110888888888888888889 decimal"),
        ("(1.0/3)*3", "0.999999999999999999 decimal"),
        ("1/3000000", "0.000000333333333333333333 decimal"),
        ("2/3000000", "0.000000666666666666666667 decimal"),
        ("1/8", "0.125 decimal"),
        ("4/2", "2 decimal"),
        ("5/2", "2.5 decimal"),
        ("-7/2.0", "-3.5 decimal"),
        ("0/7", "0 decimal"),
        // Halves go to the even digit.
        ("0.000000000000000001 / 2 + 1", "1.0000000000000000005 decimal"),
        ("1000000000000000001 / 2000000000000000000", "0.5 decimal"),
        ("1000000000000000003 / 2000000000000000000", "0.500000000000000002 decimal"),
        ("0.1 + 0.2", "0.3 decimal"),
        ("0.1 - 0.10", "0 decimal"),
        ("1.10 * 1.10", "1.21 decimal"),
        ("123456789.123456789 * 987654321.987654321", "121932631356500531.347203169112635269 decimal"),
        ("99999999999999999999.99999999999999999999 + 0.00000000000000000001", "100000000000000000000 decimal"),
        ("1/0", "error"),
        ("1.5/0.0", "error"),
    ]);
    let average = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> \
                   SELECT (AVG(?v)*AVG(?v) AS ?square) (SUM(?v*?v)/COUNT(?v) - AVG(?v)*AVG(?v) AS ?variance) \
                   { VALUES ?v { 1 1 2 } }";
    let snapshot = Arc::new(Snapshot::of_ntriples(b"").expect("good N-Triples"));
    let plan = plan(&snapshot, &parse(average).expect("good SPARQL"), PlanOptions::default()).expect("supported");
    let shown: Vec<String> =
        rows_of(&plan, |_| 0)[0].iter().map(|term| term.as_ref().expect("bound").to_string()).collect();
    let decimal = |text: &str| format!("\"{text}\"^^<{XSD}decimal>");
    // 4/3 is 1.333333333333333333; its square has 36 digits.
    assert_eq!(
        shown,
        [decimal("1.777777777777777776888888888888888889"), decimal("0.222222222222222223111111111111111111")]
    );
}

/// What happened: integers beyond 64 bits became decimals, those beyond 127 bits were no numbers, and a sum beyond 64
/// bits was an error.
#[test]
fn integers_have_as_many_digits_as_they_take() {
    assert_values(&[
        ("9223372036854775807 + 1", "9223372036854775808 integer"),
        ("-9223372036854775808 - 1", "-9223372036854775809 integer"),
        ("-(-9223372036854775808)", "9223372036854775808 integer"),
        ("ABS(-9223372036854775808)", "9223372036854775808 integer"),
        ("99999999999999999999 * 99999999999999999999", "9999999999999999999800000000000000000001 integer"),
        ("9223372036854775808 - 1", "9223372036854775807 integer"),
        (
            "12345678901234567890123456789012345678901234567890 + 1",
            "12345678901234567890123456789012345678901234567891 integer",
        ),
        ("100000000000000000000 / 100000000000000000000", "1 decimal"),
        ("100000000000000000000 / 3", "33333333333333333333.333333333333333333 decimal"),
        ("xsd:integer(\"99999999999999999999\")", "99999999999999999999 integer"),
        ("xsd:integer(\"-00099999999999999999999\")", "-99999999999999999999 integer"),
        ("CEIL(99999999999999999999.5)", "100000000000000000000 decimal"),
    ]);
    assert_comparisons(&[
        ("123456789012345678901234567890 < 123456789012345678901234567891", "true"),
        ("123456789012345678901234567890 = 123456789012345678901234567890.0", "true"),
        ("99999999999999999999999999999999999999999 > 1e40", "true"),
        ("isNumeric(999999999999999999999999999999999999999999999999)", "true"),
        ("DATATYPE(9223372036854775807 * 2) = xsd:integer", "true"),
    ]);
    let nines = "9".repeat(4096);
    assert_eq!(value_of(&format!("{nines} + 0")), format!("{nines} integer"));
    // §4.2: an overflow is an error. Without a limit, 40 products of products would take all memory.
    assert_eq!(value_of(&format!("{nines} + 1")), "error");
    assert_eq!(value_of(&format!("{nines} * {nines}")), "error");
    // A fraction is rounded.
    assert_eq!(value_of(&format!("0.{} + 0.5", "3".repeat(4096))), format!("0.8{} decimal", "3".repeat(4095)));
    assert_eq!(value_of(&format!("0.{} + 1", "6".repeat(4096))), format!("1.{}7 decimal", "6".repeat(4094)));
}

/// Functions and Operators 3.1, §4.2: the least type with both operands; IEEE 754 for floats and doubles.
#[test]
fn operands_meet_in_the_least_type_that_has_both() {
    assert_values(&[
        ("1 + 1", "2 integer"),
        ("1 + 1.0", "2 decimal"),
        ("1.5 + xsd:float(\"1\")", "2.5 float"),
        ("1 + 1e0", "2 double"),
        ("xsd:float(\"1.5\") * 2e0", "3 double"),
        ("1e0 / 0", "INF double"),
        ("-1e0 / 0", "-INF double"),
        ("0e0 / 0", "NaN double"),
        ("1e308 * 10", "INF double"),
        ("xsd:float(\"3.4e38\") * 10", "INF float"),
        ("xsd:float(\"16777216\") + 1", "1.6777216E7 float"),
        ("0.1e0 + 0.2e0", "0.30000000000000004 double"),
        ("-(0e0)", "-0 double"),
        ("+(1.50)", "1.5 decimal"),
        ("1 + \"2\"", "error"),
        ("1 + true", "error"),
        ("1 + \"1200\"^^xsd:byte", "error"),
        ("\"100\"^^xsd:byte + \"100\"^^xsd:byte", "200 integer"),
    ]);
    assert_comparisons(&[
        ("1 = 1.0", "true"),
        ("1 = 1e0", "true"),
        ("0.1 = 0.1e0", "true"),
        ("0.1e0 = xsd:float(\"0.1\")", "false"),
        ("0.1 = xsd:float(\"0.1\")", "true"),
        ("9007199254740993 = 9007199254740992e0", "true"),
        ("9007199254740993 = 9007199254740992", "false"),
        ("0e0 = -0e0", "true"),
        ("xsd:double(\"NaN\") = xsd:double(\"NaN\")", "false"),
        ("xsd:double(\"NaN\") != xsd:double(\"NaN\")", "true"),
        ("xsd:double(\"NaN\") < 1", "false"),
        ("xsd:double(\"INF\") > 1e308", "true"),
        ("1 < \"2\"", "error"),
        ("1 = \"1\"", "false"),
        ("\"x\"^^xsd:integer = 1", "error"),
    ]);
}

/// Functions and Operators 3.1, §4.4. What happened: 0.5 was added before the number was cut, so 0.49999999999999994
/// became 1 and -0.4 lost its sign.
#[test]
fn numbers_are_rounded_halves_up() {
    assert_values(&[
        ("ROUND(2.5)", "3 decimal"),
        ("ROUND(2.4999)", "2 decimal"),
        ("ROUND(-2.5)", "-2 decimal"),
        ("ROUND(-2.51)", "-3 decimal"),
        ("ROUND(2.5e0)", "3 double"),
        ("ROUND(-2.5e0)", "-2 double"),
        ("ROUND(0.49999999999999994e0)", "0 double"),
        ("ROUND(-0.4e0)", "-0 double"),
        ("ROUND(-0.5e0)", "-0 double"),
        ("ROUND(-0.5000000000000001e0)", "-1 double"),
        ("ROUND(-0e0)", "-0 double"),
        ("ROUND(0.5e0)", "1 double"),
        ("ROUND(4503599627370497.5e0)", "4.503599627370498E15 double"),
        ("ROUND(9007199254740991e0)", "9.007199254740991E15 double"),
        ("ROUND(xsd:float(\"8388609\"))", "8.388609E6 float"),
        ("ROUND(xsd:float(\"0.49999997\"))", "0 float"),
        ("ROUND(xsd:double(\"INF\"))", "INF double"),
        ("ROUND(xsd:double(\"NaN\"))", "NaN double"),
        ("ROUND(7)", "7 integer"),
        ("CEIL(10.5)", "11 decimal"),
        ("CEIL(-10.5)", "-10 decimal"),
        ("CEIL(-0.4e0)", "-0 double"),
        ("FLOOR(10.5)", "10 decimal"),
        ("FLOOR(-10.5)", "-11 decimal"),
        ("FLOOR(-0.4)", "-1 decimal"),
        ("ABS(10.5)", "10.5 decimal"),
        ("ABS(-10.5)", "10.5 decimal"),
        ("ABS(-1e0)", "1 double"),
        ("ROUND(\"1\")", "error"),
    ]);
}

/// Functions and Operators 3.1, §19.1. What happened: `xsd:integer(1e5)` was 99999, `xsd:integer(1e18)`
/// 1000000000000000042, and `xsd:string(1e7)` had no exponent.
#[test]
fn casts_are_exact() {
    assert_values(&[
        ("xsd:integer(1e5)", "100000 integer"),
        ("xsd:integer(1e18)", "1000000000000000000 integer"),
        ("xsd:integer(1e30)", "1000000000000000019884624838656 integer"),
        ("xsd:integer(-3.9)", "-3 integer"),
        ("xsd:integer(-3.9e0)", "-3 integer"),
        ("xsd:integer(0.9e0)", "0 integer"),
        ("xsd:integer(\"  12 \")", "12 integer"),
        ("xsd:integer(\"+5\")", "5 integer"),
        ("xsd:integer(\"1.0\")", "error"),
        ("xsd:integer(\"1e5\")", "error"),
        ("xsd:integer(\"\")", "error"),
        ("xsd:integer(xsd:double(\"INF\"))", "error"),
        ("xsd:integer(xsd:double(\"NaN\"))", "error"),
        ("xsd:integer(true)", "1 integer"),
        ("xsd:integer(\"100\"^^xsd:byte)", "100 integer"),
        ("xsd:integer(\"1200\"^^xsd:byte)", "error"),
        ("xsd:integer(\"7\"@en)", "error"),
        // What happened: xsd:decimal(1e-7) had 70 digits. These are the shortest texts read as the same number, of its
        // type.
        ("xsd:decimal(0.1e0)", "0.1 decimal"),
        ("xsd:decimal(1e-7)", "0.0000001 decimal"),
        ("xsd:decimal(-1.25e-3)", "-0.00125 decimal"),
        ("xsd:decimal(123456.789e0)", "123456.789 decimal"),
        ("xsd:double(xsd:decimal(0.3e0)) = 0.3e0", "true boolean"),
        ("xsd:decimal(1e22)", "10000000000000000000000 decimal"),
        ("xsd:decimal(0.5e0)", "0.5 decimal"),
        ("xsd:decimal(1e20)", "100000000000000000000 decimal"),
        ("xsd:decimal(\"+1.50\")", "1.5 decimal"),
        ("xsd:decimal(\".5\")", "0.5 decimal"),
        ("xsd:decimal(\"5.\")", "5 decimal"),
        ("xsd:decimal(\".\")", "error"),
        ("xsd:decimal(\"1e3\")", "error"),
        ("xsd:decimal(\"-0.0\")", "0 decimal"),
        ("xsd:decimal(true)", "1 decimal"),
        ("xsd:decimal(xsd:float(\"0.1\"))", "0.1 decimal"),
        ("xsd:decimal(xsd:double(\"-INF\"))", "error"),
        ("xsd:double(\"INF\")", "INF double"),
        ("xsd:double(\"+INF\")", "INF double"),
        ("xsd:double(\"inf\")", "error"),
        ("xsd:double(\"infinity\")", "error"),
        ("xsd:double(\"nan\")", "error"),
        ("xsd:double(\"1.5E2\")", "150 double"),
        ("xsd:double(\"e2\")", "error"),
        ("xsd:double(1)", "1 double"),
        ("xsd:double(0.1)", "0.1 double"),
        ("xsd:double(123456789012345678901234567890)", "1.2345678901234568E29 double"),
        ("xsd:double(false)", "0 double"),
        ("xsd:float(0.1)", "0.1 float"),
        ("xsd:float(1e300)", "INF float"),
        ("xsd:float(\"1e-50\")", "0 float"),
        // Rounded once: through a double, this would be 16777216.
        ("xsd:float(\"16777217.000000001\")", "1.6777218E7 float"),
        ("xsd:float(16777217.000000001)", "1.6777218E7 float"),
        ("xsd:boolean(\"1\")", "true boolean"),
        ("xsd:boolean(\"false\")", "false boolean"),
        ("xsd:boolean(\"TRUE\")", "error"),
        ("xsd:boolean(0.0)", "false boolean"),
        ("xsd:boolean(xsd:double(\"NaN\"))", "false boolean"),
        ("xsd:boolean(-2)", "true boolean"),
        ("xsd:string(1e7)", "\"1.0E7\""),
        ("xsd:string(1e6)", "\"1.0E6\""),
        ("xsd:string(999999e0)", "\"999999\""),
        ("xsd:string(1e-6)", "\"0.000001\""),
        ("xsd:string(1e-7)", "\"1.0E-7\""),
        ("xsd:string(-1.25e10)", "\"-1.25E10\""),
        ("xsd:string(1e0)", "\"1\""),
        ("xsd:string(-0e0)", "\"-0\""),
        ("xsd:string(xsd:double(\"NaN\"))", "\"NaN\""),
        ("xsd:string(xsd:float(\"1e7\"))", "\"1.0E7\""),
        ("xsd:string(xsd:float(\"0.1\"))", "\"0.1\""),
        ("xsd:string(1.50)", "\"1.5\""),
        ("xsd:string(1.0)", "\"1\""),
        ("xsd:string(-0.010)", "\"-0.01\""),
        ("xsd:string(007)", "\"7\""),
        ("xsd:string(\"1\"^^xsd:boolean)", "\"true\""),
        ("xsd:string(<http://e/>)", "\"http://e/\""),
        ("xsd:dateTime(\"2002-04-02T12:00:00\"^^xsd:date)", "error"),
        ("xsd:dateTime(\"2002-04-02-05:00\"^^xsd:date)", "2002-04-02T00:00:00-05:00 dateTime"),
        ("xsd:dateTime(\" 1999-12-31T24:00:00 \")", "2000-01-01T00:00:00 dateTime"),
        ("xsd:dateTime(\"2004-02-29T10:00:00.50+00:00\")", "2004-02-29T10:00:00.5Z dateTime"),
        ("xsd:dateTime(\"2003-02-29T10:00:00\")", "error"),
        ("xsd:dateTime(\"2003-02-28T25:00:00\")", "error"),
        ("xsd:dateTime(\"2003-02-28\")", "error"),
        ("xsd:dateTime(\"-0044-03-15T00:00:00Z\")", "-0044-03-15T00:00:00Z dateTime"),
        ("xsd:dateTime(\"12003-02-28T01:00:00+14:00\")", "12003-02-28T01:00:00+14:00 dateTime"),
        ("xsd:dateTime(\"2003-02-28T01:00:00+14:01\")", "error"),
        ("xsd:dateTime(\"02003-02-28T01:00:00\")", "error"),
        ("xsd:dateTime(\"203-02-28T01:00:00\")", "error"),
        ("xsd:dateTime(\"2003-2-28T01:00:00\")", "error"),
        ("xsd:dateTime(\"2003-02-28T01:00:60\")", "error"),
        ("xsd:dateTime(\"2003-02-28T01:00:00.\")", "error"),
        ("xsd:date(\"2002-03-07T10:00:00+07:00\"^^xsd:dateTime)", "2002-03-07+07:00 date"),
        ("xsd:date(\"2002-13-01\")", "error"),
        ("xsd:date(\"2000-02-29\")", "2000-02-29 date"),
        ("xsd:date(\"1900-02-29\")", "error"),
        ("xsd:time(\"24:00:00\")", "00:00:00 time"),
        ("xsd:time(\"2002-03-07T10:20:30.25+07:00\"^^xsd:dateTime)", "10:20:30.25+07:00 time"),
        ("xsd:time(\"10:20\")", "error"),
    ]);
}

/// SPARQL 1.1, §17.2.2. What happened: a condition on an ill-formed number or boolean was an error.
#[test]
fn what_is_no_number_or_boolean_but_says_so_is_false() {
    let truth = |value: &str| value_of(&format!("IF({value}, 1, 0)"));
    for value in [
        "\"abc\"^^xsd:integer",
        "\"abc\"^^xsd:boolean",
        "\"TRUE\"^^xsd:boolean",
        "\"1200\"^^xsd:byte",
        "\"-1\"^^xsd:nonNegativeInteger",
        "\"x\"^^xsd:double",
        "\"\"^^xsd:decimal",
        "\"1e0\"^^xsd:decimal",
        "\"NaN\"^^xsd:double",
        "\"NaN\"^^xsd:float",
        "0",
        "0.0",
        "-0e0",
        "\"0\"^^xsd:boolean",
        "\"\"",
        "\"+0\"^^xsd:byte",
    ] {
        assert_eq!(truth(value), "0 integer", "{value}");
    }
    for value in
        ["\"1\"^^xsd:byte", "\"1\"^^xsd:boolean", "\"a\"", "\"a\"@en", "0.001", "xsd:double(\"INF\")", "1e-320"]
    {
        assert_eq!(truth(value), "1 integer", "{value}");
    }
    for value in ["<http://e/>", "\"2020-01-01\"^^xsd:date", "\"x\"^^<http://e/type>", "\"x\"^^xsd:dateTime"] {
        assert_eq!(truth(value), "error", "{value}");
    }
    assert_comparisons(&[
        ("!\"abc\"^^xsd:integer", "true"),
        ("\"abc\"^^xsd:integer || false", "false"),
        ("\"abc\"^^xsd:boolean && <http://e/>", "false"),
    ]);
}

/// SPARQL 1.1, §17.4.2.4, and the bounds of XSD 1.1, Part 2, §3.4.13 to §3.4.25. What happened: "1200"^^xsd:byte was
/// accepted as a number.
#[test]
fn a_number_is_within_the_bounds_of_its_type() {
    let (least, greatest) = ("least", "greatest");
    let types = [
        ("long", "-9223372036854775808", "9223372036854775807"),
        ("int", "-2147483648", "2147483647"),
        ("short", "-32768", "32767"),
        ("byte", "-128", "127"),
        ("nonNegativeInteger", "0", "99999999999999999999999"),
        ("positiveInteger", "1", "99999999999999999999999"),
        ("nonPositiveInteger", "-99999999999999999999999", "0"),
        ("negativeInteger", "-99999999999999999999999", "-1"),
        ("unsignedLong", "0", "18446744073709551615"),
        ("unsignedInt", "0", "4294967295"),
        ("unsignedShort", "0", "65535"),
        ("unsignedByte", "0", "255"),
    ];
    let beyond = |text: &str, by: i128| (text.parse::<i128>().expect("it fits") + by).to_string();
    let open = |text: &str| text.len() > 22;
    for (name, low, high) in types {
        let is_number = |text: &str| value_of(&format!("isNumeric(\"{text}\"^^xsd:{name})")) == "true boolean";
        assert!(is_number(low) && is_number(high), "{name}");
        assert_eq!(is_number(&beyond(low, -1)), open(low), "{least} {name}");
        assert_eq!(is_number(&beyond(high, 1)), open(high), "{greatest} {name}");
        assert!(!is_number("1.0") && !is_number("x") && !is_number(""), "{name}");
    }
    assert_comparisons(&[
        ("isNumeric(12)", "true"),
        ("isNumeric(\"12\")", "false"),
        ("isNumeric(\"12\"^^xsd:nonNegativeInteger)", "true"),
        ("isNumeric(\"1200\"^^xsd:byte)", "false"),
        ("isNumeric(<http://example/>)", "false"),
        ("isNumeric(\"12\"^^xsd:unknown)", "false"),
        ("isNumeric(\"0x1F\"^^xsd:integer)", "false"),
        ("isNumeric(\"1_000\"^^xsd:integer)", "false"),
    ]);
}

/// Functions and Operators 3.1, §5.6.2 (and likewise §5.6.4 for REPLACE); XSD 1.1, Part 2, Appendix G. What happened:
/// patterns were read in the regex crate's dialect. It has other classes, takes `#` for a comment under the flag x, and
/// lacks back-references.
#[test]
fn patterns_are_those_of_xpath() {
    let matches = |text: &str, pattern: &str, flags: &str| {
        let found = value_of(&format!("REGEX({}, {}, {})", literal_of(text), literal_of(pattern), literal_of(flags)));
        match found.as_str() {
            "true boolean" => "yes",
            "false boolean" => "no",
            "error" => "error",
            other => panic!("{other}"),
        }
    };
    let table: &[(&str, &str, &str, &str)] = &[
        ("abracadabra", "bra", "", "yes"),
        ("abracadabra", "^a.*a$", "", "yes"),
        ("abracadabra", "^bra", "", "no"),
        ("Kaum hat dies der Hahn gesehen,\nFängt er auch schon an zu krähen:", "Kaum.*krähen", "", "no"),
        ("Kaum hat dies der Hahn gesehen,\nFängt er auch schon an zu krähen:", "Kaum.*krähen", "s", "yes"),
        ("gesehen,\nKikeriki\nKnusper", "^Kikeriki$", "m", "yes"),
        ("gesehen,\nKikeriki\nKnusper", "^Kikeriki$", "", "no"),
        ("KIKI", "kiki", "i", "yes"),
        ("abcd", ".*", "q", "no"),
        ("Mr. B. Obama", "B. OBAMA", "iq", "yes"),
        ("helloworld", "hello world", "x", "yes"),
        ("helloworld", "hello[ ]world", "x", "no"),
        ("hello world", "hello\\ sworld", "x", "yes"),
        // In a class, white space and # stand for themselves; # also does elsewhere.
        ("a#b", "a # b", "x", "yes"),
        ("a#b", "a[ #]b", "x", "yes"),
        ("ab", "a [ # ] b", "x", "no"),
        ("a b", "a[ #]b", "x", "yes"),
        // A subtraction. `&&`, `~~` and `--` are not operators.
        ("b", "^[a-z-[aeiou]]$", "", "yes"),
        ("e", "^[a-z-[aeiou]]$", "", "no"),
        ("e", "^[a-z-[a-z-[e]]]$", "", "yes"),
        ("x", "^[^a-c-[x]]$", "", "no"),
        ("&", "^[a&&b]$", "", "yes"),
        ("a", "^[a&&b]$", "", "yes"),
        ("~", "^[a~~b]$", "", "yes"),
        ("-", "^[a-]$", "", "yes"),
        ("-", "^[-a]$", "", "yes"),
        ("a", "^[a--b]$", "", "error"),
        ("a", "[a-c-e]", "", "error"),
        ("a", "[]a]", "", "error"),
        ("a", "[a[b]]", "", "error"),
        ("a", "[[:alpha:]]", "", "error"),
        ("a", "[b-a]", "", "error"),
        ("^", "^[a^]$", "", "yes"),
        // `\w` includes marks and symbols but no connectors; in the regex crate it is the reverse.
        ("_", "^\\w$", "", "no"),
        ("+", "^\\w$", "", "yes"),
        ("é", "^\\w$", "", "yes"),
        ("-", "^\\W$", "", "yes"),
        ("٣", "^\\d$", "", "yes"),
        ("\u{b}", "^\\s$", "", "no"),
        ("\u{a0}", "^\\s$", "", "no"),
        ("\t", "^\\s$", "", "yes"),
        (":", "^\\i$", "", "yes"),
        ("1", "^\\i$", "", "no"),
        ("1", "^\\c$", "", "yes"),
        ("a:b-c.d", "^\\i\\c*$", "", "yes"),
        ("a b", "^\\i\\c*$", "", "no"),
        (" ", "^[\\I]$", "", "yes"),
        ("α", "^\\p{IsGreek}$", "", "yes"),
        ("α", "^\\p{IsGreekandCoptic}$", "", "yes"),
        ("a", "^\\p{IsBasicLatin}$", "", "yes"),
        ("é", "^\\P{IsBasicLatin}$", "", "yes"),
        ("é", "^\\p{IsLatin-1Supplement}$", "", "yes"),
        ("a", "\\p{IsNowhere}", "", "error"),
        ("A", "^\\p{Lu}$", "", "yes"),
        ("a", "^[\\p{L}-[\\p{Lu}]]$", "", "yes"),
        ("a", "\\p{Greek}", "", "error"),
        ("a", "\\pL", "", "error"),
        // The names of sets are case-sensitive even under the flag i; ranges and subtractions are not.
        ("a", "^\\p{Lu}$", "i", "no"),
        ("q", "^[^Q]$", "i", "no"),
        ("b", "^[A-Z-[IO]]$", "i", "yes"),
        ("i", "^[A-Z-[IO]]$", "i", "no"),
        ("ß", "ẞ", "i", "yes"),
        // Back-references.
        ("abab", "^(ab)\\1$", "", "yes"),
        ("abba", "^(a)(b)\\2\\1$", "", "yes"),
        ("abAB", "^(ab)\\1$", "", "no"),
        ("abAB", "^(ab)\\1$", "i", "yes"),
        ("a1", "^(a)\\11$", "", "no"),
        ("aa1", "^(a)\\11$", "", "yes"),
        ("b", "^(a)?b\\1$", "", "yes"),
        ("'a'", "^('|\").*\\1$", "", "yes"),
        ("'a\"", "^('|\").*\\1$", "", "no"),
        ("aa", "(a\\1)", "", "error"),
        ("aa", "\\1(a)", "", "error"),
        ("aa", "(?:a)\\1", "", "error"),
        ("aa", "(a)[\\1]", "", "error"),
        // Constructs missing in XPath.
        ("a", "\\ba", "", "error"),
        ("a", "\\Aa", "", "error"),
        ("a", "(?i)a", "", "error"),
        ("a", "(?=a)", "", "error"),
        ("a", "(?P<n>a)", "", "error"),
        ("a", "\\x61", "", "error"),
        ("a", "a++", "", "error"),
        ("a", "*a", "", "error"),
        ("a", "a{2,1}", "", "error"),
        ("a", "a{,1}", "", "error"),
        ("{", "{", "", "error"),
        ("a", "a]", "", "error"),
        ("a", "(a", "", "error"),
        ("a", "a)", "", "error"),
        ("a", "a\\", "", "error"),
        ("a", "a", "g", "error"),
        ("aaa", "^a{3}$", "", "yes"),
        ("aaa", "^a{4,}$", "", "no"),
        ("", "", "", "yes"),
        ("b", "^(a|)b$", "", "yes"),
        ("$", "^\\$$", "", "yes"),
        ("a-b", "^a\\-b$", "", "yes"),
        ("/", "\\/", "", "error"),
        ("\r", ".", "", "no"),
        ("\r", ".", "s", "yes"),
        // Without the flag m, `$` matches at the very end only. With it, no line begins after a final line feed.
        ("a\n", "a$", "", "no"),
        ("a\n", "a$", "m", "yes"),
        ("a\n", "^$", "m", "no"),
        ("a\n\n", "^$", "m", "yes"),
        ("a\n", "\\n^", "m", "no"),
        ("a\n", "\\n$", "m", "no"),
        ("a\nb", "a$\\n^b", "m", "yes"),
        ("a^b", "a^b", "", "no"),
        ("b", "^*b", "", "yes"),
    ];
    let wrong: Vec<String> = table
        .iter()
        .map(|(text, pattern, flags, expected)| (text, pattern, flags, expected, matches(text, pattern, flags)))
        .filter(|(.., expected, found)| *found != **expected)
        .map(|(text, pattern, flags, expected, found)| {
            format!("{text:?} {pattern} {flags}: {expected} and not {found}")
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions and Operators 3.1, §5.6.4. What happened: with one group, `$12` was replaced by nothing instead of group 1
/// and a 2.
#[test]
fn replacements_are_those_of_xpath() {
    assert_values(&[
        (r#"REPLACE("abracadabra", "bra", "*")"#, r#""a*cada*""#),
        (r#"REPLACE("abracadabra", "a.*a", "*")"#, r#""*""#),
        (r#"REPLACE("abracadabra", "a.*?a", "*")"#, r#""*c*bra""#),
        (r#"REPLACE("abracadabra", "a", "")"#, r#""brcdbr""#),
        (r#"REPLACE("abracadabra", "a(.)", "a$1$1")"#, r#""abbraccaddabbra""#),
        (r#"REPLACE("abracadabra", ".*?", "$1")"#, "error"),
        (r#"REPLACE("AAAA", "A+", "b")"#, r#""b""#),
        (r#"REPLACE("AAAA", "A+?", "b")"#, r#""bbbb""#),
        (r#"REPLACE("darted", "^(.*?)d(.*)$", "$1c$2")"#, r#""carted""#),
        (r#"REPLACE("abcd", "(ab)|(a)", "[1=$1][2=$2]")"#, r#""[1=ab][2=]cd""#),
        (r#"REPLACE("a\\b\\c", "\\", "\\\\", "q")"#, r#""a\\\\b\\\\c""#),
        (r#"REPLACE("a/b/c", "/", "$", "q")"#, r#""a$b$c""#),
        (r#"REPLACE("abc", "(b)", "$12")"#, r#""ab2c""#),
        (r#"REPLACE("abc", "b", "[$0]")"#, r#""a[b]c""#),
        (r#"REPLACE("abc", "(b)", "[$2]")"#, r#""a[]c""#),
        (r#"REPLACE("abc", "b", "[$12]")"#, r#""a[2]c""#),
        (r#"REPLACE("abcdefghijkl", "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "$11$10$12")"#, r#""kja2l""#),
        (r#"REPLACE("abc", "(b)", "$100")"#, r#""ab00c""#),
        (r#"REPLACE("abc", "(b)", "$01")"#, r#""abc""#),
        (r#"REPLACE("abc", "b", "\\$\\\\")"#, r#""a$\\c""#),
        (r#"REPLACE("abc", "b", "$")"#, "error"),
        (r#"REPLACE("abc", "b", "$x")"#, "error"),
        (r#"REPLACE("abc", "b", "\\n")"#, "error"),
        (r#"REPLACE("abc", "b", "\\")"#, "error"),
        (r#"REPLACE("abc", "x*", "-")"#, "error"),
        (r#"REPLACE("abc", "^", "-")"#, "error"),
        (r#"REPLACE("abc", "b", "x", "g")"#, "error"),
        (r#"REPLACE("abc"@en, "b", "Z")"#, r#""aZc"@en"#),
        (r#"REPLACE("aBc", "b", "x", "i")"#, r#""axc""#),
        (r#"REPLACE("xyxy-abab", "(..)\\1", "<$1>")"#, r#""<xy>-<ab>""#),
        (r#"REPLACE("été", "t", "TT")"#, r#""éTTé""#),
        (r#"REPLACE("a\nb\n", "$", "-", "m")"#, "error"),
        (r#"REPLACE("a\nb\n", "[ab]$", "-", "m")"#, r#""-\n-\n""#),
        (r#"REPLACE("a.b", ".", "-", "q")"#, r#""a-b""#),
        (r#"REPLACE("a b", " ", "-", "qx")"#, r#""a-b""#),
    ]);
}

/// SPARQL 1.1, §17.4.3 and §17.4.5; for SUBSTR also Functions and Operators 3.1, §5.4.3.
#[test]
fn functions_of_strings_and_moments_are_those_of_the_recommendation() {
    let moment = r#""2011-01-10T14:45:13.815-05:00"^^xsd:dateTime"#;
    let calls = [
        ("YEAR", "2011 integer"),
        ("MONTH", "1 integer"),
        ("DAY", "10 integer"),
        ("HOURS", "14 integer"),
        ("MINUTES", "45 integer"),
        ("SECONDS", "13.815 decimal"),
        ("TIMEZONE", "-PT5H dayTimeDuration"),
        ("TZ", "\"-05:00\""),
    ];
    for (function, value) in calls {
        assert_eq!(value_of(&format!("{function}({moment})")), value);
        assert_eq!(value_of(&format!("{function}(\"2011-01-10T14:45:13\")")), "error");
        assert_eq!(value_of(&format!("{function}(\"2011-02-30T14:45:13\"^^xsd:dateTime)")), "error");
    }
    assert_values(&[
        (r#"TIMEZONE("2011-01-10T14:45:13.815Z"^^xsd:dateTime)"#, "PT0S dayTimeDuration"),
        (r#"TIMEZONE("2011-01-10T14:45:13.815"^^xsd:dateTime)"#, "error"),
        (r#"TIMEZONE("2011-01-10T14:45:13+05:30"^^xsd:dateTime)"#, "PT5H30M dayTimeDuration"),
        (r#"TZ("2011-01-10T14:45:13.815Z"^^xsd:dateTime)"#, r#""Z""#),
        (r#"TZ("2011-01-10T14:45:13.815"^^xsd:dateTime)"#, r#""""#),
        (r#"YEAR("-0044-03-15T00:00:00"^^xsd:dateTime)"#, "-44 integer"),
        (r#"YEAR("1999-12-31T24:00:00"^^xsd:dateTime)"#, "2000 integer"),
        (r#"HOURS("1999-12-31T24:00:00"^^xsd:dateTime)"#, "0 integer"),
        (r#"SECONDS("1999-12-31T23:59:01.000000000000000001"^^xsd:dateTime)"#, "1.000000000000000001 decimal"),
        (r#"STRLEN("chat")"#, "4 integer"),
        (r#"STRLEN("chat"@en)"#, "4 integer"),
        (r#"STRLEN("𝒳é")"#, "2 integer"),
        (r#"SUBSTR("foobar", 4)"#, r#""bar""#),
        (r#"SUBSTR("foobar"@en, 4, 1)"#, r#""b"@en"#),
        (r#"SUBSTR("motor car", 6)"#, r#"" car""#),
        (r#"SUBSTR("metadata", 4, 3)"#, r#""ada""#),
        (r#"SUBSTR("12345", 1.5, 2.6)"#, r#""234""#),
        (r#"SUBSTR("12345", 0, 3)"#, r#""12""#),
        (r#"SUBSTR("12345", 5, -3)"#, r#""""#),
        (r#"SUBSTR("12345", -3, 5)"#, r#""1""#),
        (r#"SUBSTR("12345", 0e0/0, 3)"#, r#""""#),
        (r#"SUBSTR("12345", 1, 0e0/0)"#, r#""""#),
        (r#"SUBSTR("12345", -42, 1e0/0)"#, r#""12345""#),
        (r#"SUBSTR("12345", -1e0/0, 1e0/0)"#, r#""""#),
        (r#"UCASE("foo"@en)"#, r#""FOO"@en"#),
        (r#"LCASE("BAR")"#, r#""bar""#),
        (r#"STRSTARTS("foobar"@en, "foo")"#, "true boolean"),
        (r#"STRSTARTS("foobar"@en, "foo"@fr)"#, "error"),
        (r#"STRENDS("foobar", "bar")"#, "true boolean"),
        (r#"STRENDS("foobar", "bar"@en)"#, "error"),
        (r#"CONTAINS("foobar"@en, "bar"@en)"#, "true boolean"),
        (r#"STRBEFORE("abc", "b")"#, r#""a""#),
        (r#"STRBEFORE("abc"@en, "bc")"#, r#""a"@en"#),
        (r#"STRBEFORE("abc"@en, "b"@cy)"#, "error"),
        (r#"STRBEFORE("abc", "xyz")"#, r#""""#),
        (r#"STRBEFORE("abc"@en, "z"@en)"#, r#""""#),
        (r#"STRBEFORE("abc"@en, "")"#, r#"""@en"#),
        (r#"STRAFTER("abc", "b")"#, r#""c""#),
        (r#"STRAFTER("abc"@en, "ab")"#, r#""c"@en"#),
        (r#"STRAFTER("abc", "")"#, r#""abc""#),
        (r#"STRAFTER("abc"@en, "z"@en)"#, r#""""#),
        (r#"ENCODE_FOR_URI("Los Angeles"@en)"#, r#""Los%20Angeles""#),
        (r#"ENCODE_FOR_URI("~bébé")"#, r#""~b%C3%A9b%C3%A9""#),
        (r#"CONCAT("foo"@en, "bar"@en)"#, r#""foobar"@en"#),
        (r#"CONCAT("foo"@en, "bar")"#, r#""foobar""#),
        (r#"CONCAT("foo", 1)"#, "error"),
        (r#"LANGMATCHES("fr-BE", "FR")"#, "true boolean"),
        (r#"LANGMATCHES("fro", "fr")"#, "false boolean"),
        (r#"LANGMATCHES("", "*")"#, "false boolean"),
        (r#"MD5("abc")"#, r#""900150983cd24fb0d6963f7d28e17f72""#),
        (r#"SHA1("abc")"#, r#""a9993e364706816aba3e25717850c26c9cd0d89d""#),
        (r#"SHA256("abc")"#, r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#),
        (r#"STRDT("123", xsd:integer)"#, "123 integer"),
        (r#"STRLANG("chat", "en")"#, r#""chat"@en"#),
        (r#"STR("007"^^xsd:integer)"#, r#""007""#),
        (r#"STR(<http://e/>)"#, r#""http://e/""#),
        (r#"LANG("a"@en)"#, r#""en""#),
        (r#"LANG(1)"#, r#""""#),
        (r#"DATATYPE("a"@en)"#, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>"),
        (r#"DATATYPE("a")"#, "<http://www.w3.org/2001/XMLSchema#string>"),
        (r#"DATATYPE(1.0e0 + 1)"#, "<http://www.w3.org/2001/XMLSchema#double>"),
    ]);
}

/// Functions and Operators 3.1, §9.4; without a zone, XSD 1.1, Part 2, §D.2.1, and the table of XSD 1.0, §3.2.7.4. The
/// durations are the table of XSD 1.1, §3.3.6.2.
#[test]
fn moments_and_durations_are_compared_as_far_as_they_can_be() {
    let typed = |text: &str, name: &str| format!("\"{text}\"^^xsd:{name}");
    let table: &[(&str, &str, &str, &str)] = &[
        ("dateTime", "2002-04-02T12:00:00-01:00", "=", "2002-04-02T17:00:00+04:00"),
        ("dateTime", "2002-04-02T23:00:00-04:00", "=", "2002-04-03T02:00:00-01:00"),
        ("dateTime", "1999-12-31T24:00:00", "=", "2000-01-01T00:00:00"),
        ("dateTime", "2005-04-04T24:00:00", ">", "2005-04-04T00:00:00"),
        ("dateTime", "2005-04-04T00:00:00.10", "=", "2005-04-04T00:00:00.1"),
        ("dateTime", "2005-04-04T00:00:00.1", "<", "2005-04-04T00:00:00.11"),
        ("dateTime", "-0001-12-31T00:00:00Z", "<", "0000-01-01T00:00:00Z"),
        ("dateTime", "2000-01-15T00:00:00", "<", "2000-02-15T00:00:00"),
        ("dateTime", "2000-01-15T12:00:00", "<", "2000-01-16T12:00:00Z"),
        ("dateTime", "2000-01-01T12:00:00", "?", "1999-12-31T23:00:00Z"),
        ("dateTime", "2000-01-16T12:00:00", "?", "2000-01-16T12:00:00Z"),
        ("dateTime", "2000-01-16T00:00:00", "?", "2000-01-16T12:00:00Z"),
        ("date", "2004-12-25-12:00", "=", "2004-12-26+12:00"),
        ("date", "2004-12-25Z", ">", "2004-12-25+07:00"),
        ("date", "2004-12-25Z", "<", "2004-12-25-05:00"),
        ("date", "2004-02-28", "<", "2004-02-29"),
        ("date", "2004-12-25", "?", "2004-12-25Z"),
        ("time", "08:00:00+09:00", "<", "17:00:00-06:00"),
        ("time", "21:30:00+10:30", "=", "06:00:00-05:00"),
        ("time", "24:00:00+01:00", "=", "00:00:00+01:00"),
        ("time", "12:00:00", "<", "12:00:00.001"),
        ("duration", "P1Y", ">", "P364D"),
        ("duration", "P1Y", "?", "P365D"),
        ("duration", "P1Y", "?", "P366D"),
        ("duration", "P1Y", "<", "P367D"),
        ("duration", "P1M", ">", "P27D"),
        ("duration", "P1M", "?", "P28D"),
        ("duration", "P1M", "?", "P31D"),
        ("duration", "P1M", "<", "P32D"),
        ("duration", "P5M", ">", "P149D"),
        ("duration", "P5M", "?", "P150D"),
        ("duration", "P5M", "?", "P153D"),
        ("duration", "P5M", "<", "P154D"),
        ("duration", "P12M", "=", "P1Y"),
        ("duration", "P1DT24H", "=", "P2D"),
        ("duration", "-PT0S", "=", "P0Y"),
        ("duration", "-P1M", "<", "PT0.1S"),
        ("dayTimeDuration", "PT36H", "=", "P1DT12H"),
        ("yearMonthDuration", "P13M", ">", "P1Y"),
    ];
    for (name, a, order, b) in table {
        let found: Vec<&str> = ["<", "=", ">"]
            .into_iter()
            .filter(|sign| value_of(&format!("{} {sign} {}", typed(a, name), typed(b, name))) == "true boolean")
            .collect();
        let expected: Vec<&str> = if *order == "?" { Vec::new() } else { vec![order] };
        assert_eq!(found, expected, "{name} {a} {order} {b}");
        // Durations without an order are unequal; moments without an order may be equal, and this is an error.
        if *order == "?" {
            let equal = value_of(&format!("{} = {}", typed(a, name), typed(b, name)));
            assert_eq!(equal, if *name == "duration" { "false boolean" } else { "error" }, "{name} {a} {b}");
            assert_eq!(value_of(&format!("{} < {}", typed(a, name), typed(b, name))), "error", "{name} {a} {b}");
        }
    }
    for (name, text) in [
        ("yearMonthDuration", "P1D"),
        ("dayTimeDuration", "P1Y"),
        ("duration", "P"),
        ("duration", "PT"),
        ("duration", "P1YT"),
        ("duration", "P1M1Y"),
        ("duration", "P1.5Y"),
        ("duration", "1Y"),
    ] {
        assert_eq!(
            value_of(&format!("{0} = {1}", typed(text, name), typed("P0D", "duration"))),
            "error",
            "{name} {text}"
        );
    }
}

/// What happened: languages were compared first, so the least of "b"@de and "a"@en was "b"@de.
#[test]
fn the_least_string_with_a_language_is_the_least_text() {
    let snapshot = Arc::new(Snapshot::of_ntriples(b"").expect("good N-Triples"));
    let text = r#"SELECT (MIN(?v) AS ?least) (MAX(?v) AS ?most) { VALUES ?v { "b"@de "a"@en "c"@aa "a"@fr } }"#;
    for threads in [1, 3] {
        let options = PlanOptions { threads, parallel_rows: 0, ..PlanOptions::default() };
        let plan = plan(&snapshot, &parse(text).expect("good SPARQL"), options).expect("supported");
        let row = rows_of(&plan, |_| 0).remove(0);
        let shown: Vec<String> = row.iter().map(|term| term.as_ref().expect("bound").to_string()).collect();
        assert_eq!(shown, ["\"a\"@en", "\"c\"@aa"]);
    }
}
