//! A strategy with its parameters, as users write it: `las`, `las:pin=pu,spares=2`, and several of them in a list.

use super::{ALL, Latencies, Strategy};
use crate::Plan;
use std::fmt;
use std::str::FromStr;
use vicus_topology::{PuId, Topology};

/// A parameter of a strategy.
#[derive(Debug)]
pub struct Parameter {
    /// Its name in `strategy:name=value`.
    pub name: &'static str,
    /// Its value if it is not set.
    pub default: u32,
    /// Its possible values.
    pub values: AllowedValues,
    /// Its effect, in one line.
    pub what: &'static str,
}

/// The possible values of a parameter. A user's value is taken as it is, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedValues {
    /// Named values, such as `pin=pu`; the value is the index.
    Named(&'static [&'static str]),
    /// A whole number from the first to the second.
    Between(u32, u32),
    /// One of these numbers.
    OneOf(&'static [u32]),
}

impl AllowedValues {
    /// Any whole number in range.
    pub const ANY: AllowedValues = AllowedValues::Between(0, u32::MAX);

    /// The value of a text.
    fn read(self, text: &str) -> Option<u32> {
        match self {
            AllowedValues::Named(names) => names.iter().position(|name| *name == text).map(|at| at as u32),
            AllowedValues::Between(least, most) => text.parse().ok().filter(|value| (least..=most).contains(value)),
            AllowedValues::OneOf(numbers) => text.parse().ok().filter(|value| numbers.contains(value)),
        }
    }

    /// A value in the form [`AllowedValues::read`] takes.
    fn shown(self, value: u32) -> String {
        match self {
            AllowedValues::Named(names) => names[value as usize].to_owned(),
            AllowedValues::Between(..) | AllowedValues::OneOf(_) => value.to_string(),
        }
    }
}

/// The expected values.
impl fmt::Display for AllowedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllowedValues::Named(names) => write!(f, "one of {}", names.join(", ")),
            AllowedValues::Between(least, most) => write!(f, "a whole number from {least} to {most}"),
            AllowedValues::OneOf(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                write!(f, "one of {}", numbers.join(", "))
            }
        }
    }
}

/// A strategy with its parameters, as in `las` or `las:pin=pu,spares=2`.
#[derive(Clone)]
pub struct Setting {
    strategy: &'static dyn Strategy,
    /// One value for each of the strategy's parameters.
    values: Vec<u32>,
}

/// Several settings, with commas between: `las:pin=pu,spares=2,nls`. A word behind a comma is a strategy if it is the
/// name of one, and otherwise a parameter of the strategy before.
///
/// ```
/// use vicus_schedule::Settings;
/// let Settings(settings) = "footprint:backoff_ns=1,backoff_max_ns=2,nls".parse().unwrap();
/// assert_eq!(settings.len(), 2);
/// assert_eq!(settings[1].strategy().name(), "nls");
/// ```
#[derive(Clone, Debug)]
pub struct Settings(pub Vec<Setting>);

/// Why a text names no strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError(String);

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

impl Setting {
    /// The strategy.
    pub fn strategy(&self) -> &'static dyn Strategy {
        self.strategy
    }

    /// The plan for a machine and a number of threads, seated by [`Topology::seat_pus`]. Panics if `threads` is 0.
    pub fn plan(&self, machine: &Topology, threads: usize) -> Plan {
        self.plan_with(machine, threads, None)
    }

    /// Like [`Setting::plan`], with measured latencies. Strategies without a use for them make the same plan.
    pub fn plan_with(&self, machine: &Topology, threads: usize, latencies: Option<&Latencies>) -> Plan {
        assert!(threads > 0, "a plan is for at least one thread");
        self.plan_on(machine, &machine.seat_pus(threads), latencies)
    }

    /// Like [`Setting::plan_with`], with a thread on each of these PUs: the first seats of the plan, in this order. A
    /// PU may be there more than once.
    ///
    /// ```
    /// use vicus_topology::{PuId, Topology};
    /// let machine = Topology::parse("node:2 l3:1 core:4").unwrap();
    /// let setting: vicus_schedule::Setting = "las".parse().unwrap();
    /// let pus = [6, 1, 6].map(PuId::new);
    /// let plan = setting.plan_on(&machine, &pus, None);
    /// assert_eq!(plan.seats[..3].iter().map(|seat| seat.pu).collect::<Vec<_>>(), pus);
    /// ```
    pub fn plan_on(&self, machine: &Topology, pus: &[PuId], latencies: Option<&Latencies>) -> Plan {
        assert!(!pus.is_empty(), "a plan is for at least one thread");
        let plan = match latencies {
            Some(latencies) => self.strategy.plan_with(machine, pus, self, latencies),
            None => self.strategy.plan(machine, pus, self),
        };
        if cfg!(debug_assertions) {
            plan.assert_valid();
        }
        plan
    }

    /// The value of a parameter. Panics if the strategy has no such parameter.
    pub fn value(&self, name: &str) -> u32 {
        self.find(name).unwrap_or_else(|| panic!("{} has a parameter {name}", self.strategy.name()))
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let at = self.strategy.parameters().iter().position(|parameter| parameter.name == name);
        at.map(|at| self.values[at])
    }

    /// Whether the strategy has a parameter of this name with this named value.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        let parameters = self.strategy.parameters().iter().zip(&self.values);
        parameters.filter(|(parameter, _)| parameter.name == name).any(|(parameter, &at)| match parameter.values {
            AllowedValues::Named(names) => names.get(at as usize) == Some(&value),
            _ => false,
        })
    }

    /// The value of a parameter whose 0 means another default.
    pub(super) fn above_zero(&self, name: &str) -> Option<u32> {
        Some(self.value(name)).filter(|&value| value > 0)
    }

    /// A strategy with its defaults.
    fn of(strategy: &'static dyn Strategy) -> Setting {
        Setting { strategy, values: strategy.parameters().iter().map(|parameter| parameter.default).collect() }
    }

    /// Sets `name=value`; `set` has the parameters set before.
    fn set(&mut self, part: &str, set: &mut Vec<usize>) -> Result<(), SettingError> {
        let (name, known) = (self.strategy.name(), self.strategy.parameters());
        let (key, value) = part.split_once('=').ok_or_else(|| {
            let what = format!("is neither a strategy nor parameter=value of strategy `{name}`");
            SettingError(format!("`{part}` {what}; the strategies are {}", names()))
        })?;
        let at = known.iter().position(|parameter| parameter.name == key).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
            SettingError(format!("strategy `{name}` has no parameter `{key}`; it has {}", names.join(", ")))
        })?;
        if set.contains(&at) {
            return Err(SettingError(format!("`{part}`: strategy `{name}` has `{key}` already")));
        }
        set.push(at);
        let values = known[at].values;
        self.values[at] =
            values.read(value).ok_or_else(|| SettingError(format!("`{key}={value}`: expected {values}")))?;
        Ok(())
    }
}

fn by_name(name: &str) -> Option<&'static dyn Strategy> {
    ALL.into_iter().find(|strategy| strategy.name() == name)
}

fn names() -> String {
    ALL.map(|strategy| strategy.name()).join(", ")
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.strategy.name())?;
        let mut separator = ':';
        for (parameter, &value) in self.strategy.parameters().iter().zip(&self.values) {
            if value != parameter.default {
                write!(f, "{separator}{}={}", parameter.name, parameter.values.shown(value))?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Setting, SettingError> {
        let Settings(mut settings) = text.parse()?;
        let count = settings.len();
        settings.pop().filter(|_| count == 1).ok_or_else(|| {
            SettingError(format!("`{text}` is a list of {count} strategies, and one alone is expected here"))
        })
    }
}

impl FromStr for Settings {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Settings, SettingError> {
        let mut settings: Vec<Setting> = Vec::new();
        let mut set = Vec::new();
        for piece in text.split(',') {
            let (name, parameter) =
                piece.split_once(':').map_or((piece, None), |(name, parameter)| (name, Some(parameter)));
            let part = match by_name(name) {
                Some(strategy) => {
                    set.clear();
                    settings.push(Setting::of(strategy));
                    parameter
                }
                None if parameter.is_none() && !settings.is_empty() => Some(piece),
                None => return Err(SettingError(format!("there is no strategy `{name}`; there are {}", names()))),
            };
            if let Some(part) = part {
                settings.last_mut().expect("a strategy came before").set(part, &mut set)?;
            }
        }
        let conflict = settings.iter().find_map(|setting| setting.strategy.conflict(setting));
        conflict.map_or(Ok(Settings(settings)), |conflict| Err(SettingError(conflict)))
    }
}

/// Writes the form [`Settings`] are read from.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self.0.iter().map(Setting::to_string).collect();
        f.write_str(&settings.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in ["las", "las:pin=pu", "las:pin=pu,spares=2", "nls", "vicinity:reach=4"] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_setting_says_what_there_is() {
        for (text, expected) in [
            ("lsa", "there is no strategy `lsa`; there are las, nls, bobox"),
            ("", "there is no strategy ``; there are las"),
            ("las:pins=2", "it has pin, spares, spin_ns"),
            ("las:pin=core", "expected one of auto, group, pu"),
            ("las:spares=many", "expected a whole number from 0 to 4294967295"),
            ("las:spares=4294967296", "expected a whole number from 0 to 4294967295"),
            ("las:spares=1,spares=2", "`spares=2`: strategy `las` has `spares` already"),
            ("las:spares=4,spares=4", "`spares=4`: strategy `las` has `spares` already"),
            ("las:", "`` is neither a strategy nor parameter=value of strategy `las`"),
            ("las,nls", "`las,nls` is a list of 2 strategies, and one alone is expected here"),
            ("bobox:several=0", "`several=0`: expected a whole number from 1 to 65535"),
            ("bobox:several=65536", "expected a whole number from 1 to 65535"),
            ("footprint:backoff_factor=1", "expected a whole number from 2 to 255"),
            ("vicinity:backoff_factor=256", "expected a whole number from 2 to 255"),
            ("vicinity:reach=5", "`reach=5`: expected one of 0, 1, 4, 8, 16"),
            (
                "footprint:backoff_ns=99999999,backoff_max_ns=1",
                "`footprint`: backoff_ns=99999999 is longer than backoff_max_ns=1",
            ),
            ("vicinity:backoff_ns=1000001", "backoff_ns=1000001 is longer than backoff_max_ns=1000000"),
        ] {
            let error = text.parse::<Setting>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_comma_is_followed_by_a_strategy_or_by_a_parameter() {
        let read = |text: &str| text.parse::<Settings>().map(|settings| settings.0);
        let settings = read("las,nls,footprint:backoff_ns=1,backoff_max_ns=2,bobox:several=3,steal").unwrap();
        let shown: Vec<String> = settings.iter().map(Setting::to_string).collect();
        assert_eq!(shown, ["las", "nls", "footprint:backoff_ns=1,backoff_max_ns=2", "bobox:several=3", "steal"]);
        assert_eq!(read("las:spares=1,las:spares=1").unwrap().len(), 2, "each has its own");
        for (text, expected) in [
            (
                "las,lsa",
                "`lsa` is neither a strategy nor parameter=value of strategy `las`; the strategies are las, nls",
            ),
            ("las,lsa:pin=pu", "there is no strategy `lsa`; there are las, nls"),
            ("las,,nls", "`` is neither a strategy"),
            ("las,", "`` is neither a strategy"),
            ("pin=pu,las", "there is no strategy `pin=pu`"),
            ("nls,las:pin=pu,pin=pu", "has `pin` already"),
            ("nls,steal:several=2", "strategy `steal` has no parameter `several`"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn no_parameter_is_called_as_a_strategy_and_defaults_are_allowed() {
        for parameter in ALL.iter().flat_map(|strategy| strategy.parameters()) {
            let Parameter { name, default, values, .. } = parameter;
            assert!(by_name(name).is_none() && !name.contains([',', ':', '=']), "{name}");
            assert_eq!(values.read(&values.shown(*default)), Some(*default), "{name}");
        }
    }
}
