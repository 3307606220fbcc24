//! The names of work: each box, function and kind of task by a small number.

use rustc_hash::FxHashMap;
use serde::Serialize;
use vicus_trace::{JobId, ModelInfo, Trace, What};

/// With more boxes in all models, boxes of a type share a key.
const MOST_BOXES: usize = 400;
/// Likewise with more boxes of each type, on average.
const MOST_OF_A_TYPE: usize = 8;

/// A name of work, and the type by which [`vicus_trace::Summary`] sums up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Key {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
}

/// The keys of a trace, and the key of each job.
pub(crate) struct Keys {
    pub(crate) all: Vec<Key>,
    /// The model of each request.
    models: FxHashMap<u32, usize>,
    /// The keys of each model's boxes.
    boxes: Vec<Vec<u32>>,
    functions: FxHashMap<JobId, u32>,
    /// The keys of functions.
    named: Vec<u32>,
    task: u32,
    unknown: u32,
}

impl Keys {
    pub(crate) fn new(trace: &Trace) -> Keys {
        let header = trace.header();
        let mut all = Vec::new();
        let mut places: FxHashMap<(String, String), u32> = FxHashMap::default();
        let mut place = |name: &str, type_name: &str| {
            *places.entry((type_name.to_owned(), name.to_owned())).or_insert_with(|| {
                all.push(Key { name: name.to_owned(), type_name: type_name.to_owned() });
                all.len() as u32 - 1
            })
        };
        // Hundreds of boxes of a few types are shown by type.
        let boxes = || header.models.iter().flat_map(|model| &model.boxes);
        let types: rustc_hash::FxHashSet<&str> = boxes().map(|info| info.type_name.as_str()).collect();
        let count = boxes().count();
        let is_small = count <= MOST_BOXES && count <= MOST_OF_A_TYPE * types.len();
        let key = |info: &vicus_trace::BoxInfo, place: &mut dyn FnMut(&str, &str) -> u32| match is_small {
            true => place(&info.name, &info.type_name),
            false => place(&info.type_name, &info.type_name),
        };
        let of_model = |model: &ModelInfo, place: &mut dyn FnMut(&str, &str) -> u32| {
            model.boxes.iter().map(|info| key(info, place)).collect::<Vec<u32>>()
        };
        let boxes: Vec<Vec<u32>> = header.models.iter().map(|model| of_model(model, &mut place)).collect();
        let named: Vec<u32> = header.functions.iter().map(|name| place(name, name)).collect();
        let (task, unknown) = (place("(task)", "(task)"), place("(unknown)", "(unknown)"));
        let numbered = header.models.iter().enumerate();
        let models =
            numbered.flat_map(|(at, model)| model.requests.iter().map(move |&request| (request, at))).collect();
        let events = trace.logs().iter().flat_map(|log| &log.events);
        let functions = events.filter_map(|event| match event.what {
            What::Named { who, function } => Some((who, *named.get(function as usize)?)),
            _ => None,
        });
        let functions = functions.collect();
        Keys { all, models, boxes, functions, named, task, unknown }
    }

    /// The key of a job.
    pub(crate) fn of(&self, who: JobId) -> u32 {
        if !who.is_box() {
            return match self.named.is_empty() {
                true => self.task,
                false => self.functions.get(&who).copied().unwrap_or(self.task),
            };
        }
        let boxes = self.model(who.request).map(|model| &self.boxes[model]);
        boxes.and_then(|boxes| boxes.get(who.index as usize)).copied().unwrap_or(self.unknown)
    }

    /// The model of a request, by its place in the header.
    pub(crate) fn model(&self, request: u32) -> Option<usize> {
        self.models.get(&request).copied()
    }

    /// The keys of a model's boxes.
    pub(crate) fn boxes(&self, model: usize) -> &[u32] {
        &self.boxes[model]
    }

    /// The types in the order of their first keys, and the type of each key.
    pub(crate) fn types(&self) -> (Vec<&str>, Vec<usize>) {
        let mut types: Vec<&str> = Vec::new();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        let of = self.all.iter().map(|key| {
            *places.entry(&key.type_name).or_insert_with(|| {
                types.push(&key.type_name);
                types.len() - 1
            })
        });
        let of = of.collect();
        (types, of)
    }
}
