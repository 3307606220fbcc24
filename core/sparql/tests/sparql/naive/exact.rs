//! Exact numbers as rows of digits, calculated with as at school.

use std::cmp::Ordering;

/// `±digits / 10^scale`. Invariant: no zeros in front of the digits, and none at the end of the fraction.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Exact {
    negative: bool,
    /// The last one first.
    digits: Vec<u8>,
    scale: usize,
}

impl Exact {
    fn new(negative: bool, mut digits: Vec<u8>, mut scale: usize) -> Exact {
        let zeros = digits.iter().take(scale).take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        scale -= zeros;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let scale = if digits.is_empty() { 0 } else { scale };
        Exact { negative: negative && !digits.is_empty(), digits, scale }
    }

    pub(crate) fn of(value: i64) -> Exact {
        Exact::parse(&value.to_string()).expect("digits")
    }

    pub(crate) fn parse(text: &str) -> Option<Exact> {
        let (negative, rest) = match text.chars().next()? {
            '-' => (true, &text[1..]),
            '+' => (false, &text[1..]),
            _ => (false, text),
        };
        let scale = rest.find('.').map_or(0, |point| rest.len() - point - 1);
        let only: String = rest.replacen('.', "", 1);
        if only.is_empty() || !only.chars().all(|char| char.is_ascii_digit()) {
            return None;
        }
        Some(Exact::new(negative, only.bytes().rev().map(|byte| byte - b'0').collect(), scale))
    }

    pub(crate) fn is_integer(&self) -> bool {
        self.scale == 0
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    fn raised(&self, scale: usize) -> Vec<u8> {
        let mut digits = vec![0; scale - self.scale];
        digits.extend(&self.digits);
        digits
    }

    fn aligned(&self, other: &Exact) -> (Vec<u8>, Vec<u8>, usize) {
        let scale = self.scale.max(other.scale);
        (self.raised(scale), other.raised(scale), scale)
    }

    pub(crate) fn negated(&self) -> Exact {
        Exact { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    pub(crate) fn compare(&self, other: &Exact) -> Ordering {
        let (a, b, _) = self.aligned(other);
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => magnitudes(&a, &b),
            (true, true) => magnitudes(&b, &a),
        }
    }

    pub(crate) fn plus(&self, other: &Exact) -> Exact {
        let (a, b, scale) = self.aligned(other);
        if self.negative == other.negative {
            let mut made = Vec::new();
            let mut carry = 0;
            for place in 0..a.len().max(b.len()) + 1 {
                let sum = a.get(place).unwrap_or(&0) + b.get(place).unwrap_or(&0) + carry;
                made.push(sum % 10);
                carry = sum / 10;
            }
            return Exact::new(self.negative, made, scale);
        }
        match magnitudes(&a, &b) {
            Ordering::Less => Exact::new(other.negative, difference(&b, &a), scale),
            _ => Exact::new(self.negative, difference(&a, &b), scale),
        }
    }

    pub(crate) fn times(&self, other: &Exact) -> Exact {
        let mut made = vec![0u32; self.digits.len() + other.digits.len() + 1];
        for (place, a) in self.digits.iter().enumerate() {
            for (other_place, b) in other.digits.iter().enumerate() {
                made[place + other_place] += u32::from(a * b);
            }
            for place in 0..made.len() - 1 {
                made[place + 1] += made[place] / 10;
                made[place] %= 10;
            }
        }
        let digits = made.into_iter().map(|digit| digit as u8).collect();
        Exact::new(self.negative != other.negative, digits, self.scale + other.scale)
    }

    /// Digit by digit until there are 18 behind the point and 18 significant ones; then halves go to the even digit.
    pub(crate) fn over(&self, other: &Exact) -> Option<Exact> {
        if other.is_zero() {
            return None;
        }
        if self.is_zero() {
            return Some(self.clone());
        }
        let (a, b, _) = self.aligned(other);
        let (mut quotient, mut rest, mut places) = (Vec::new(), Vec::new(), 0);
        // The dividend's digits from the first on, then zeros.
        let mut next = a.into_iter().rev();
        loop {
            let digit = next.next();
            let whole = quotient.iter().skip_while(|digit| **digit == 0).count();
            if digit.is_none() && places >= 18 && whole >= 18 {
                break;
            }
            if digit.is_none() {
                places += 1;
            }
            rest.insert(0, digit.unwrap_or(0));
            let mut count = 0;
            while magnitudes(&rest, &b) != Ordering::Less {
                rest = difference(&rest, &b);
                count += 1;
            }
            quotient.push(count);
        }
        quotient.reverse();
        let twice = Exact::new(false, rest, 0).times(&Exact::of(2));
        let is_up = match magnitudes(&twice.digits, &b) {
            Ordering::Greater => true,
            Ordering::Equal => quotient[0] % 2 == 1,
            Ordering::Less => false,
        };
        let cut = Exact::new(false, quotient, 0);
        let rounded = if is_up { cut.plus(&Exact::of(1)) } else { cut };
        Some(Exact::new(self.negative != other.negative, rounded.digits, places))
    }

    /// The largest integer up to this number.
    pub(crate) fn floor(&self) -> Exact {
        let whole = Exact::new(self.negative, self.digits.iter().skip(self.scale).copied().collect(), 0);
        if self.negative && !self.is_integer() { whole.plus(&Exact::of(-1)) } else { whole }
    }

    pub(crate) fn truncated(&self) -> Exact {
        if self.negative { self.negated().floor().negated() } else { self.floor() }
    }

    pub(crate) fn text(&self) -> String {
        let mut made = String::new();
        for (place, digit) in self.raised(self.scale).iter().enumerate() {
            if place == self.scale && place > 0 {
                made.push('.');
            }
            made.push(char::from(b'0' + digit));
        }
        if self.digits.len() <= self.scale {
            made += &"0".repeat(self.scale - self.digits.len());
            if self.scale > 0 {
                made.push('.');
            }
            made.push('0');
        }
        if self.negative {
            made.push('-');
        }
        made.chars().rev().collect()
    }

    pub(crate) fn to_f64(&self) -> f64 {
        self.text().parse().expect("digits and a point")
    }

    /// The value of a double, by doubling and halving.
    pub(crate) fn of_f64(value: f64) -> Option<Exact> {
        if !value.is_finite() {
            return None;
        }
        let (mut value, mut factor) = (value, Exact::of(1));
        let (two, half) = (Exact::of(2), Exact::parse("0.5").expect("digits"));
        while value.abs() >= 9e15 {
            value /= 2.0;
            factor = factor.times(&two);
        }
        while value != value.trunc() {
            value *= 2.0;
            factor = factor.times(&half);
        }
        Some(Exact::of(value as i64).times(&factor))
    }
}

fn magnitudes(a: &[u8], b: &[u8]) -> Ordering {
    let length = |digits: &[u8]| digits.iter().rposition(|digit| *digit != 0).map_or(0, |place| place + 1);
    length(a).cmp(&length(b)).then_with(|| a[..length(a)].iter().rev().cmp(b[..length(b)].iter().rev()))
}

/// The difference of a larger and a smaller one.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    let mut borrowed = 0;
    for (place, digit) in a.iter().enumerate() {
        let minus = b.get(place).unwrap_or(&0) + borrowed;
        borrowed = u8::from(*digit < minus);
        made.push(digit + 10 * borrowed - minus);
    }
    made
}
