//! A seat's decisions about lightweight threads, by hand.

use super::seat::{Task, World};
use vicus_schedule::{
    EndOfWait, GoesOn, OtherSeats, Plan, RequestId, Seat, SeatId, Setting, goes_on_from_outside, next_open_seat,
};
use vicus_topology::Topology;

/// The other seats, by their numbers.
#[derive(Default)]
struct Others {
    idle: Vec<usize>,
    elsewhere: Vec<usize>,
}

impl OtherSeats for Others {
    fn claim(&mut self, seat: SeatId) -> bool {
        let found = self.idle.iter().position(|&idle| idle == seat.index());
        found.map(|at| self.idle.remove(at)).is_some()
    }

    fn is_elsewhere(&self, seat: SeatId) -> bool {
        self.elsewhere.contains(&seat.index())
    }
}

/// Four seats, and a spare one behind them.
fn plan() -> Plan {
    let machine = Topology::parse("node:1 core:4").unwrap();
    let plan = "las".parse::<Setting>().unwrap().plan(&machine, 4);
    assert!(!plan.seats[3].spare && plan.seats[4].spare);
    plan
}

fn seat(plan: &Plan, number: usize) -> Seat<Task> {
    let lock_free = plan.owner_lifos();
    Seat::new(plan, SeatId::new(number), |queue| lock_free[queue.index()])
}

fn at(seat: usize, is_claimed: bool) -> GoesOn {
    GoesOn::At { seat: SeatId::new(seat), is_claimed }
}

/// A movable thread of this seat, whose wait was ended by a thread.
fn end(home: usize) -> EndOfWait {
    EndOfWait { home: SeatId::new(home), is_movable: true, by_thread: true, leaves_seat: false }
}

#[test]
fn a_bound_thread_goes_on_at_its_seat() {
    let plan = plan();
    let mut seat = seat(&plan, 1);
    let mut others = Others { idle: vec![0, 2, 3], elsewhere: vec![2] };
    for by_thread in [false, true] {
        let bound = |home| EndOfWait { is_movable: false, by_thread, ..end(home) };
        assert_eq!(seat.place_resumed(&plan, bound(1), &mut others), GoesOn::Here);
        assert_eq!(seat.place_resumed(&plan, bound(2), &mut others), at(2, false));
    }
    assert_eq!(others.idle, [0, 2, 3], "none was claimed");
}

#[test]
fn a_movable_thread_leaves_its_wakers_seat_for_an_idle_one_if_that_has_many() {
    let plan = plan();
    let mut seat = seat(&plan, 0);
    let mut others = Others { idle: vec![1, 3, 4], ..Others::default() };
    for thread in 0..4 {
        assert_eq!(seat.place_resumed(&plan, end(0), &mut others), GoesOn::Here, "the waker lets it have its turn");
        seat.woke((0, thread));
    }
    let mut goes = || seat.place_resumed(&plan, end(0), &mut others);
    assert_eq!(goes(), at(1, true));
    assert_eq!(goes(), GoesOn::Here, "it has looked at seat 2, which is busy");
    assert_eq!(goes(), at(3, true));
    assert_eq!(goes(), GoesOn::Here, "it has looked at itself, and not at the spare seat");
    assert_eq!(goes(), GoesOn::Here, "seat 1 is busy now");
}

#[test]
fn code_that_is_no_thread_gives_movable_threads_to_idle_seats() {
    let plan = plan();
    let mut seat = seat(&plan, 2);
    let by_task = EndOfWait { by_thread: false, ..end(2) };
    let mut others = Others { idle: vec![3], ..Others::default() };
    assert_eq!(seat.place_resumed(&plan, by_task, &mut others), at(3, true));
    assert_eq!(seat.place_resumed(&plan, by_task, &mut others), GoesOn::Here);
}

#[test]
fn a_seat_whose_thread_leaves_sends_movable_threads_to_seats_that_run_tasks() {
    let plan = plan();
    let mut seat = seat(&plan, 0);
    let leaving = EndOfWait { leaves_seat: true, ..end(0) };
    let mut others = Others { idle: vec![2], elsewhere: vec![0, 1] };
    // Seat 1 is looked at; it is neither idle nor open.
    assert_eq!(seat.place_resumed(&plan, leaving, &mut others), at(2, false));
    assert_eq!(seat.place_resumed(&plan, leaving, &mut others), at(2, false), "behind seat 3, which it has looked at");
    assert_eq!(seat.open_seat(&plan, &others), Some(SeatId::new(3)), "the next one in the round");
    let mut nowhere = Others { elsewhere: vec![0, 1, 2, 3], ..Others::default() };
    assert_eq!(seat.place_resumed(&plan, leaving, &mut nowhere), GoesOn::Here);
    assert_eq!(seat.open_seat(&plan, &nowhere), None);
    nowhere.elsewhere.retain(|&seat| seat != 0);
    assert_eq!(seat.open_seat(&plan, &nowhere), None, "its own seat is open again");
}

#[test]
fn a_movable_thread_of_a_busy_seat_follows_a_thread() {
    let plan = plan();
    let mut waker = seat(&plan, 0);
    let mut others = Others { idle: vec![1], ..Others::default() };
    assert_eq!(waker.place_resumed(&plan, end(1), &mut others), at(1, true), "its seat is idle");
    assert_eq!(waker.place_resumed(&plan, end(1), &mut others), GoesOn::Here);
    for end in [EndOfWait { by_thread: false, ..end(1) }, EndOfWait { leaves_seat: true, ..end(1) }] {
        assert_eq!(waker.place_resumed(&plan, end, &mut others), at(1, false));
    }
    let mut spare = seat(&plan, 4);
    assert_eq!(spare.place_resumed(&plan, end(1), &mut others), at(1, false), "a lent thread keeps none");
    others.elsewhere = vec![1, 2];
    let by_task = EndOfWait { by_thread: false, ..end(1) };
    assert_eq!(waker.place_resumed(&plan, by_task, &mut others), at(3, false), "its seat's thread does something else");
}

#[test]
fn a_thread_woken_from_outside_goes_home_unless_its_seats_thread_is_elsewhere() {
    let plan = plan();
    let home = SeatId::new(3);
    let others = |elsewhere: &[usize]| Others { idle: vec![0], elsewhere: elsewhere.to_vec() };
    assert_eq!(goes_on_from_outside(&plan, home, true, &others(&[])), home);
    assert_eq!(goes_on_from_outside(&plan, home, true, &others(&[3])), SeatId::new(0), "the round begins anew");
    assert_eq!(goes_on_from_outside(&plan, home, false, &others(&[3])), home, "it is bound");
    assert_eq!(goes_on_from_outside(&plan, home, true, &others(&[0, 1, 2, 3])), home, "there is no other");
    assert_eq!(next_open_seat(&plan, home, &others(&[0, 1, 2])), Some(home), "itself comes last");
}

#[test]
fn rows_of_beginning_threads_end() {
    let plan = plan();
    let mut seat = seat(&plan, 0);
    assert!(!seat.may_begin_thread(), "the seat looks first");
    let row = |seat: &mut Seat<Task>| {
        let mut count = 0;
        while seat.may_begin_thread() {
            seat.begin_first_thread();
            count += 1;
        }
        count
    };
    seat.begin_row(false);
    assert_eq!(row(&mut seat), 64);
    seat.begin_row_on_top();
    assert_eq!(row(&mut seat), 8);
    seat.begin_row(true);
    assert_eq!(row(&mut seat), 0, "the thread beneath may be able to go on");
    seat.begin_wait(Some(RequestId::new(1)));
    seat.begin_row(false);
    assert_eq!(row(&mut seat), 0, "so may the task");
}

#[test]
fn a_row_takes_from_the_own_queue_in_its_turn() {
    let mut world = World::of(plan());
    world.seat.begin_row(false);
    assert!(world.seat.own().is_some() && world.seat.is_own_thread_next());
    assert_eq!(world.seat.begin_own_thread(), world.seat.own_way());
    world.seat.keep((0, 1));
    assert!(!world.seat.is_own_thread_next(), "the kept task goes first");
}

#[test]
fn after_a_beginning_in_vain_threads_begin_in_the_usual_way_for_a_while() {
    let plan = plan();
    let mut seat = seat(&plan, 0);
    assert!(seat.try_on_top());
    seat.began_in_vain();
    assert_eq!((0..100).take_while(|_| !seat.try_on_top()).count(), 32);
    assert!(seat.try_on_top());
}
