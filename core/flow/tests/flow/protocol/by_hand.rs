//! A world driven by the test: the test picks the next task, and sees the effects of each step.

use std::sync::Arc;
use vicus_flow::{Activation, Instance, Model, Running, SeatBuffers, Sent, World, box_class};
use vicus_schedule::{Kind, RequestId, TaskClass, TaskRef};
use vicus_topology::NodeId;

struct Alone;

impl World for Alone {
    fn blocking(&self, section: &mut dyn FnMut()) {
        section();
    }
}

#[expect(unsafe_code, reason = "the type of a class's functions")]
// SAFETY of callers: no condition: it only panics.
unsafe fn never(_: TaskRef) {
    unreachable!("these tests call begin themselves");
}

static BY_HAND: TaskClass = box_class(never);

/// An instance with its queued tasks.
pub(crate) struct ByHand {
    pub(crate) instance: Arc<Instance>,
    /// The queued tasks; each is taken out when it is run.
    pub(crate) queue: Vec<Activation>,
    /// The node of all boxes from here on.
    pub(crate) node: NodeId,
    /// Whether the request spreads from here on.
    pub(crate) spreads: bool,
}

impl ByHand {
    /// Started: the initialization box is queued.
    pub(crate) fn start(model: &Arc<Model>) -> ByHand {
        let instance = Instance::new(model, RequestId::new(0), 1, &BY_HAND, Vec::new());
        let first = instance.start(Some(0));
        ByHand { instance, queue: vec![first], node: NodeId::new(0), spreads: false }
    }

    /// Started, and the initialization box has run.
    pub(crate) fn with_pills(model: &Arc<Model>) -> ByHand {
        let mut world = ByHand::start(model);
        world.run("initialization");
        world
    }

    /// The names of the boxes in the queue, with a `~` before deferred ones.
    pub(crate) fn queued(&self) -> Vec<String> {
        self.queue.iter().map(|activation| self.show(activation)).collect()
    }

    fn show(&self, activation: &Activation) -> String {
        let name = self.instance.model().boxes()[activation.index.index()].name();
        format!("{}{name}", if activation.kind == Kind::Deferred { "~" } else { "" })
    }

    /// Begins a queued box.
    pub(crate) fn begin(&mut self, name: &str) -> Running {
        let boxes = self.instance.model().boxes();
        let at = self.queue.iter().position(|activation| boxes[activation.index.index()].name() == name);
        let activation = self.queue.remove(at.unwrap_or_else(|| panic!("{name} is queued: {:?}", self.queued())));
        let mut buffers = self.buffers();
        let running = activation.queued.begin(&mut buffers);
        // Receivers of refused envelopes, delivered now.
        self.spawn(buffers);
        running
    }

    fn buffers(&self) -> SeatBuffers {
        SeatBuffers { node: self.node, spreads: self.spreads, seat: Some(0), ..SeatBuffers::default() }
    }

    fn spawn(&mut self, mut buffers: SeatBuffers) -> Vec<String> {
        let made = buffers.activations.iter().map(|activation| self.show(activation)).collect();
        self.queue.append(&mut buffers.activations);
        made
    }

    /// The rest of an invocation. Returns whether user code was run, and the queued boxes, in the order of queueing.
    pub(crate) fn end(&mut self, mut running: Running) -> (bool, Vec<String>) {
        let mut buffers = self.buffers();
        let due = running.is_due();
        if due {
            running.act(&Alone, &mut buffers);
        }
        running.send(&mut buffers).finish(&mut buffers);
        (due, self.spawn(buffers))
    }

    /// All of an invocation but its end: the receivers of its envelopes are queued while it is still running.
    pub(crate) fn run_but_finish(&mut self, name: &str) -> Sent {
        let (mut running, mut buffers) = (self.begin(name), self.buffers());
        if running.is_due() {
            running.act(&Alone, &mut buffers);
        }
        let sent = running.send(&mut buffers);
        self.spawn(buffers);
        sent
    }

    /// The end of the invocation begun by [`ByHand::run_but_finish`].
    pub(crate) fn finish(&mut self, sent: Sent) -> Vec<String> {
        let mut buffers = self.buffers();
        sent.finish(&mut buffers);
        self.spawn(buffers)
    }

    /// A whole invocation.
    pub(crate) fn run(&mut self, name: &str) -> (bool, Vec<String>) {
        let running = self.begin(name);
        self.end(running)
    }

    /// Runs the queued tasks, the youngest first, until there are none.
    pub(crate) fn run_out(&mut self) {
        while let Some(youngest) = self.queue.last() {
            let name = self.instance.model().boxes()[youngest.index.index()].name().to_owned();
            self.run(&name);
        }
    }
}
