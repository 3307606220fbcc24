//! SERVICE: rows joined with the solutions of an endpoint. SPARQL 1.1 Federated Query.
//!
//! The box collects rows, and sends their values shared with the endpoint's group as a table (VALUES). A row without a
//! value, or with a blank node, which means nothing to an endpoint, has a gap there. A question is for rows with the
//! same gaps: its table has the other columns only, and each line once. So no solution goes with two lines, and the
//! endpoint sends each solution once. Each row is compared with the solutions of its question.

use crate::boxes::Pace;
use crate::boxes::join::{Core, JoinSpec, Pairs, Probe, ProbeState};
use crate::service::ServiceFailed;
use crate::terms::{Booking, Terms, is_too_deep};
use hashbrown::HashMap;
use oxrdf::Term;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::{Id, MOST_NESTED, TermView};

/// The question to an endpoint.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ServiceSpec {
    pub(crate) endpoint: EndpointFrom,
    pub(crate) silent: bool,
    /// The base and prefixes, and the group.
    pub(crate) prologue: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) variables: Vec<Variable>,
    /// For each output, its place in `variables`.
    pub(crate) output: Vec<usize>,
}

/// The source of an endpoint's name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum EndpointFrom {
    Iri(Arc<str>),
    Column(usize),
    /// A variable without a value in any row.
    Unbound,
}

/// A variable of the group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The input's column of it.
    pub(crate) input: Option<usize>,
}

pub(crate) struct Service {
    core: Core,
    asker: Asker,
    /// Rows for the next questions.
    waiting: Vec<Envelope>,
    rows: usize,
    /// Rows with known partners.
    asked: VecDeque<(Envelope, Vec<(u32, u32)>)>,
    answers: Answers,
    ended: bool,
}

struct Asker {
    terms: Arc<Terms>,
    booking: Booking,
    spec: Arc<ServiceSpec>,
    /// The shared variables, by their places in the list of all, and their columns.
    shared: Vec<(usize, usize)>,
}

/// The solutions for the rows at hand, and the rows of each.
#[derive(Default)]
struct Answers {
    /// A column of ids for each variable.
    columns: Vec<Vec<u64>>,
    rows: u32,
    output: Vec<usize>,
    /// Rows of the envelope at hand and solutions, ascending by row.
    pairs: Vec<(u32, u32)>,
}

impl Probe for Answers {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        _: &dyn Fn() -> bool,
    ) {
        let Pairs { left, right } = pairs;
        let end = self.pairs.len().min(at.done + limit);
        left.extend(self.pairs[at.done..end].iter().map(|(row, _)| row));
        right.extend(self.pairs[at.done..end].iter().map(|(_, solution)| solution));
        let row = self.pairs.get(end).map_or(input.rows(), |(row, _)| *row as usize);
        *at = ProbeState { row, done: end };
    }

    fn gather(&self, output: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        crate::boxes::gather(&self.columns[self.output[output]], right, into);
    }

    fn bytes(&self) -> u64 {
        (self.columns.iter().map(Vec::capacity).sum::<usize>() * size_of::<u64>()) as u64
            + (self.pairs.capacity() * size_of::<(u32, u32)>()) as u64
    }
}

impl Service {
    pub(crate) fn new(terms: &Arc<Terms>, join: &Arc<JoinSpec>, spec: &Arc<ServiceSpec>, pace: Pace) -> Service {
        let column = |(place, variable): (usize, &Variable)| variable.input.map(|column| (place, column));
        let shared = spec.variables.iter().enumerate().filter_map(column).collect();
        Service {
            core: Core::new(terms, join, pace),
            asker: Asker { terms: Arc::clone(terms), booking: Booking::default(), spec: Arc::clone(spec), shared },
            waiting: Vec::new(),
            rows: 0,
            asked: VecDeque::new(),
            answers: Answers { output: spec.output.clone(), ..Answers::default() },
            ended: false,
        }
    }
}

impl Operator for Service {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.core.is_idle()
            && let Some((envelope, pairs)) = self.asked.pop_front()
        {
            self.answers.pairs = pairs;
            self.core.give(envelope);
        }
        if !self.core.is_idle() {
            self.core.act(turn, &mut self.answers)?;
            turn.run_again();
            return Ok(());
        }
        match turn.take(0) {
            None if self.ended => {}
            None => return Ok(()),
            Some(pill) if pill.is_pill() => self.ended = true,
            Some(envelope) => {
                self.rows += envelope.rows();
                self.waiting.push(envelope);
            }
        }
        if self.rows >= self.asker.terms.limits.service_rows || self.ended && self.rows > 0 {
            self.rows = 0;
            let waiting = std::mem::take(&mut self.waiting);
            let pairs = self.asker.ask(turn, &waiting, &mut self.answers)?;
            self.asked.extend(waiting.into_iter().zip(pairs));
            turn.run_again();
        } else if self.ended {
            self.core.end(turn);
        } else if turn.head(0).is_some() {
            turn.run_again();
        }
        Ok(())
    }
}

/// Rows with the same endpoint and the same values of the shared variables.
struct Asking {
    endpoint: Id,
    values: Vec<Id>,
    /// The solutions for these values.
    solutions: Vec<u32>,
}

impl Asking {
    /// The values sent to an endpoint; `None` at a gap.
    fn told(&self) -> impl Iterator<Item = Option<Id>> {
        self.values.iter().map(|id| is_exact(*id).then_some(*id))
    }

    /// For each value, whether it is a gap. Those with the same endpoint and gaps are asked together.
    fn gaps(&self) -> impl Iterator<Item = bool> {
        self.values.iter().map(|id| !is_exact(*id))
    }
}

/// Whether an endpoint's solution must have the same value.
fn is_exact(id: Id) -> bool {
    !id.is_unbound() && !id.is_blank()
}

impl Asker {
    /// Asks endpoints for the partners of rows. Returns, for each envelope, pairs of a row and a solution.
    fn ask(
        &self,
        turn: &mut Turn<'_>,
        envelopes: &[Envelope],
        answers: &mut Answers,
    ) -> Result<Vec<Vec<(u32, u32)>>, BoxError> {
        answers.rows = 0;
        answers.columns = vec![Vec::new(); self.spec.variables.len()];
        let mut known: HashMap<Vec<u64>, usize, HashKey> = HashMap::with_hasher(self.terms.key);
        let mut asking: Vec<Asking> = Vec::new();
        let mut of_rows = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let columns = crate::boxes::slices(envelope);
            let of_row = |row: usize| {
                let endpoint = match self.spec.endpoint {
                    EndpointFrom::Column(column) => columns[column][row],
                    EndpointFrom::Iri(_) | EndpointFrom::Unbound => 0,
                };
                let values = self.shared.iter().map(|(_, column)| columns[*column][row]);
                let key: Vec<u64> = std::iter::once(endpoint).chain(values).collect();
                *known.entry(key).or_insert_with_key(|key| {
                    let values = key[1..].iter().copied().map(Id::from_bits).collect();
                    asking.push(Asking { endpoint: Id::from_bits(endpoint), values, solutions: Vec::new() });
                    asking.len() - 1
                })
            };
            of_rows.push((0..envelope.rows()).map(of_row).collect::<Vec<usize>>());
        }
        // Rows of one endpoint with the same gaps are asked together; rows with the same sent values are one line.
        let mut order: Vec<usize> = (0..asking.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&asking[a], &asking[b]);
            a.endpoint.cmp(&b.endpoint).then_with(|| a.gaps().cmp(b.gaps())).then_with(|| a.told().cmp(b.told()))
        });
        let is_together = |a: &Asking, b: &Asking| a.endpoint == b.endpoint && a.gaps().eq(b.gaps());
        let lines: Vec<&[usize]> = order
            .chunk_by(|&a, &b| is_together(&asking[a], &asking[b]) && asking[a].told().eq(asking[b].told()))
            .collect();
        let together: Vec<&[&[usize]]> = lines
            .chunk_by(|a, b| is_together(&asking[a[0]], &asking[b[0]]))
            .flat_map(|lines| lines.chunks(self.terms.limits.service_rows.max(1)))
            .collect();
        for lines in together {
            self.ask_together(turn, lines, &mut asking, answers)?;
        }
        let pairs = |asked: Vec<usize>| {
            let with = |(row, place): (usize, usize)| {
                asking[place].solutions.iter().map(move |&solution| (row as u32, solution))
            };
            asked.into_iter().enumerate().flat_map(with).collect()
        };
        Ok(of_rows.into_iter().map(pairs).collect())
    }

    /// Asks one endpoint for the partners of these rows; they have the same gaps.
    fn ask_together(
        &self,
        turn: &mut Turn<'_>,
        lines: &[&[usize]],
        asking: &mut [Asking],
        answers: &mut Answers,
    ) -> Result<(), BoxError> {
        let before = answers.rows;
        let first = &asking[lines[0][0]];
        let told: Vec<usize> = (0..self.shared.len()).filter(|&place| is_exact(first.values[place])).collect();
        let asked = self.endpoint(first.endpoint).and_then(|endpoint| {
            let endpoints =
                self.terms.endpoints().ok_or_else(|| format!("SERVICE <{endpoint}>: this run can ask no endpoint"))?;
            let query = self.query(&told, lines.iter().map(|line| &asking[line[0]].values[..]));
            let mut blanks = HashMap::with_hasher(self.terms.key);
            let terms = &self.terms;
            let variables = &self.spec.variables;
            let held = Cell::new(answers.bytes());
            let too_deep = Cell::new(false);
            let mut found = |solution: &[(&str, Term)]| {
                answers.columns.iter_mut().for_each(|column| column.push(0));
                for (name, term) in solution {
                    let Some(place) = variables.iter().position(|variable| variable.name == *name) else { continue };
                    let id = match term {
                        // The endpoint's blank nodes are its own.
                        Term::BlankNode(node) => *blanks
                            .entry(node.as_str().to_owned())
                            .or_insert_with(|| Terms::fresh_blank(terms.fresh_blanks(1))),
                        term => {
                            too_deep.set(too_deep.get() || is_too_deep(term.as_ref()));
                            terms.id(term)
                        }
                    };
                    answers.columns[place][answers.rows as usize] = id.bits();
                }
                answers.rows += 1;
                held.set(u64::from(answers.rows) * (variables.len() * size_of::<u64>()) as u64);
            };
            // Asked before each piece of an answer, as an answer may exceed the request's memory.
            let stopped = || self.booking.poll(terms, turn, held.get());
            let asked = turn.blocking(|| endpoints.ask(&endpoint, &query, &stopped, &mut found));
            let asked = asked.and_then(|()| match too_deep.get() {
                false => Ok(()),
                true => {
                    let most = format!("more than {MOST_NESTED} levels deep");
                    Err(format!("its answer has triple terms that are within each other {most}").into())
                }
            });
            asked.map_err(|error| ServiceFailed { endpoint, error }.into())
        });
        match asked {
            Ok(()) => {}
            // A request that ended well needs no more solutions, and must not fail for them.
            Err(_) if turn.is_stopped() => return Ok(()),
            Err(error) => {
                // SILENT is about the endpoint, not about this request's memory.
                self.booking.hold(&self.terms, turn, answers.bytes())?;
                if !self.spec.silent {
                    return Err(error);
                }
                // One solution without values.
                answers.columns.iter_mut().for_each(|column| {
                    column.truncate(before as usize);
                    column.push(0);
                });
                answers.rows = before + 1;
            }
        }
        self.match_up(before..answers.rows, &told, lines, asking, answers);
        self.booking.hold(&self.terms, turn, answers.bytes())
    }

    /// Matches solutions with values, of which these are sent.
    fn match_up(
        &self,
        solutions: Range<u32>,
        told: &[usize],
        lines: &[&[usize]],
        asking: &mut [Asking],
        answers: &Answers,
    ) {
        let key = |values: &[Id]| told.iter().map(|&told| values[told]).collect::<Vec<Id>>();
        let mut by_told: HashMap<Vec<Id>, &[usize], HashKey> = HashMap::with_hasher(self.terms.key);
        by_told.extend(lines.iter().map(|line| (key(&asking[line[0]].values), *line)));
        let mut values = Vec::with_capacity(self.shared.len());
        for solution in solutions {
            values.clear();
            values
                .extend(self.shared.iter().map(|(place, _)| Id::from_bits(answers.columns[*place][solution as usize])));
            let mut compare = |line: &[usize]| {
                let fits = |(a, b): (&Id, &Id)| a == b || a.is_unbound() || b.is_unbound();
                for &place in line {
                    if asking[place].values.iter().zip(&values).all(fits) {
                        asking[place].solutions.push(solution);
                    }
                }
            };
            if told.iter().all(|&told| is_exact(values[told])) {
                by_told.get(&key(&values)).into_iter().for_each(|line| compare(line));
            } else {
                // A solution without such a value goes with all lines, like SILENT's solution after a failure.
                lines.iter().for_each(|line| compare(line));
            }
        }
    }

    /// The IRI of an endpoint.
    fn endpoint(&self, id: Id) -> Result<String, BoxError> {
        match &self.spec.endpoint {
            EndpointFrom::Iri(iri) => Ok(iri.to_string()),
            EndpointFrom::Unbound => Err("SERVICE: its variable has no value".into()),
            EndpointFrom::Column(_) if id.is_unbound() => {
                Err("SERVICE: its variable has no value in a solution".into())
            }
            EndpointFrom::Column(_) => self.terms.view(id, |view| match view {
                TermView::Iri(iri) => Ok(iri.to_owned()),
                other => Err(format!("SERVICE: its variable has the value {other}, which is no IRI").into()),
            }),
        }
    }

    /// The query for these values of the shared variables, of which these are sent.
    fn query<'v>(&self, told: &[usize], lines: impl Iterator<Item = &'v [Id]>) -> String {
        let ServiceSpec { prologue, group, variables, .. } = &*self.spec;
        let mut text = format!("{prologue}SELECT");
        variables.iter().for_each(|variable| text.extend([" ?", &variable.name]));
        if variables.is_empty() {
            text += " *";
        }
        text += " WHERE {";
        if !told.is_empty() {
            text += " VALUES (";
            told.iter().for_each(|&told| text.extend(["?", &variables[self.shared[told].0].name, " "]));
            text += ") {";
            for line in lines {
                text += " (";
                for &told in told {
                    self.terms.view(line[told], |view| write!(text, "{view} ")).expect("a string takes everything");
                }
                text += ")";
            }
            text += " }";
        }
        text.extend([" ", group, " }"]);
        text
    }
}
