//! Work by threads near its data.
//!
//! Wheeler et al. §5.2 start a thread at each location of an array, to work on the segments there. We differ: all seats
//! of a node share its pieces, and a seat without pieces left there takes those of the nearest others.

use crate::runtime::handle::MachineRuntime;
use crate::runtime::request::Request;
use std::sync::{Arc, Mutex};
use vicus_flow::{BoxModel, FlowError, Model, ModelBuilder, Schema, Turn};
use vicus_topology::{NodeId, Place, Topology};

impl MachineRuntime {
    /// Runs a function on pieces of work, each near its data if a seat is there. A thread takes pieces of its own node
    /// first, then those of others, the nearest first. Returns when all are done. A good size is about an array's
    /// segment: a seat works until no pieces are left, and other requests wait for it. A calling task or box works,
    /// too.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use vicus_machine::MachineRuntime;
    /// use vicus_memory::{ArrayOptions, DistArray};
    ///
    /// let runtime = MachineRuntime::builder().start();
    /// let memory = runtime.memory().expect("there are addresses");
    /// let squares = DistArray::from_fn(memory, 500_000, ArrayOptions::default(), |n| n as u64 * n as u64)?;
    /// let sum = AtomicU64::new(0);
    /// let segments = (0..squares.segments()).map(|segment| (squares.segment(segment), squares.segment_node(segment)));
    /// runtime.each_near(segments, |range| {
    ///     sum.fetch_add(squares.run(range).iter().sum(), Ordering::Relaxed);
    /// })?;
    /// assert_eq!(sum.into_inner(), squares.iter().sum::<u64>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The function panicked; its thread then stops, and the others go on with the pieces left. Panics, with the
    /// place's name, if the machine has no such place.
    pub fn each_near<W: Send>(
        &self,
        work: impl IntoIterator<Item = (W, impl Into<Place>)>,
        f: impl Fn(W) + Sync,
    ) -> Result<(), FlowError> {
        let piles = Piles::new(self.topology(), work);
        let body = |node: NodeId| {
            while let Some(piece) = piles.take(node) {
                f(piece);
            }
        };
        let model = model(Body::new(&body));
        // Dropped before the data borrowed by the body, also if this function panics.
        let mut requests = Waited(Vec::new());
        for seat in self.plan().seats.iter().filter(|seat| !seat.spare) {
            requests.0.push(self.submit_near(&model, seat.node));
        }
        let results = requests.0.iter().map(|request| request.wait().map(drop));
        // All are awaited; the first error is returned.
        results.fold(Ok(()), Result::and)
    }
}

/// The remaining pieces, by node.
struct Piles<W> {
    piles: Vec<Mutex<std::vec::IntoIter<W>>>,
    /// For each node, the nodes with pieces at the beginning, the nearest first.
    orders: Vec<Vec<NodeId>>,
}

impl<W> Piles<W> {
    fn new(machine: &Topology, work: impl IntoIterator<Item = (W, impl Into<Place>)>) -> Piles<W> {
        let mut piles: Vec<Vec<W>> = machine.nodes.iter().map(|_| Vec::new()).collect();
        for (piece, place) in work {
            piles[machine.node_of(place).index()].push(piece);
        }
        let order = |from: &vicus_topology::Node| {
            let nodes = machine.nodes_by_distance(from.id).into_iter();
            nodes.filter(|node| !piles[node.index()].is_empty()).collect()
        };
        let orders = machine.nodes.iter().map(order).collect();
        Piles { piles: piles.into_iter().map(|pile| Mutex::new(pile.into_iter())).collect(), orders }
    }

    /// A piece for a seat on a node.
    fn take(&self, node: NodeId) -> Option<W> {
        let pop = |at: &NodeId| self.piles[at.index()].lock().expect("nothing panics under this lock").next();
        self.orders.get(node.index())?.iter().find_map(pop)
    }
}

/// The function called by every seat. It lies on the caller's stack.
#[derive(Clone, Copy)]
struct Body(*const (dyn Fn(NodeId) + Sync));

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: the function may be called by several threads at once.
unsafe impl Send for Body {}

#[expect(unsafe_code, reason = "it has a pointer")]
// SAFETY: as above.
unsafe impl Sync for Body {}

impl Body {
    fn new<'a>(body: &'a (dyn Fn(NodeId) + Sync + 'a)) -> Body {
        #[expect(
            unsafe_code,
            reason = "a model lives as long as any handle to it, the function only as long as the call"
        )]
        // SAFETY: both point to the same function, and only `act` follows this pointer.
        Body(unsafe {
            std::mem::transmute::<*const (dyn Fn(NodeId) + Sync + 'a), *const (dyn Fn(NodeId) + Sync)>(body)
        })
    }

    fn act(self, node: NodeId) {
        #[expect(unsafe_code, reason = "follows a pointer into another thread's stack")]
        // SAFETY: called only in invocations of a request; `each_near` waits for all requests, and a request is over
        // only when no invocation of it runs or will run.
        unsafe {
            (*self.0)(node);
        }
    }
}

fn model(body: Body) -> Arc<Model> {
    let mut net = ModelBuilder::new("each near");
    let operator = move || {
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            body.act(turn.node());
            turn.send_pill(0);
            Ok(())
        }
    };
    let source = net.source(BoxModel::new("near", operator).output(&Schema::new::<&str>([])));
    net.end(source.output(0));
    net.build().expect("one box is a model")
}

/// Requests to await on drop.
struct Waited(Vec<Request>);

impl Drop for Waited {
    fn drop(&mut self) {
        for request in &self.0 {
            // The result was returned already, or the caller panics.
            let _ = request.wait();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use vicus_topology::GroupId;

    #[test]
    fn a_seat_takes_what_is_near_first_and_then_helps_the_nearest() {
        let mut machine = Topology::parse("node:3 l3:2 core:1").unwrap();
        machine.distances = vec![vec![10, 30, 20], vec![20, 10, 30], vec![30, 20, 10]];
        // The groups of node 0 are 0 and 1.
        let [group, node] = [Place::Group(GroupId::new(1)), Place::Node(NodeId::new(0))];
        let work = [('a', NodeId::new(1).into()), ('b', group), ('c', NodeId::new(2).into()), ('d', node)];
        let piles = Piles::new(&machine, work);
        let taken: Vec<char> = std::iter::from_fn(|| piles.take(NodeId::new(0))).collect();
        assert_eq!(taken, ['b', 'd', 'c', 'a']);
        assert_eq!(piles.take(NodeId::new(1)), None);
    }

    #[test]
    #[should_panic(expected = "there is no node1: the number of nodes is 1, counted from 0")]
    fn a_place_that_there_is_not_is_named() {
        Piles::new(&Topology::parse("node:1 core:1").unwrap(), [((), NodeId::new(1))]);
    }
}
