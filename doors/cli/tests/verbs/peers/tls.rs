//! Queries that nodes share by TLS, of the command and of a server.

use super::served::{Server, wait_for};
use super::{EDGES, Node, ask, asked, ended, people, vicus};
use crate::authority::{Authority, texts};
use crate::store::{folder, text};
use std::thread;
use std::time::Duration;

#[test]
fn a_query_over_tls_has_the_rows_that_it_has_without() {
    let folder = folder("peers-tls");
    let store = people(&folder, "own", 300);
    let (authority, other) = (Authority::new(&folder, "ca"), Authority::new(&folder, "other"));
    let here = authority.here("node");
    let mut nodes = [Node::start(&store, &texts(&here)), Node::start(&store, &texts(&here))];
    let addresses = nodes.each_ref().map(|node| node.address.clone());
    let addresses = [&addresses[0][..], &addresses[1]];
    let roots = ["--tls-ca", &authority.roots];
    // An order of all, so that rows of all processes are compared.
    let sorted = format!("{EDGES} ORDER BY ?a ?c");
    let question = ["--format", "tsv", &sorted];
    let expected = ask(&store, &[], &question);
    assert_eq!(expected.code(), Some(0), "{}", expected.err());
    let found = ask(&store, &addresses, &[&roots[..], &question].concat());
    assert_eq!((found.code(), found.out(), found.err()), (Some(0), expected.out(), String::new()));
    let plan = ask(&store, &addresses, &[&roots[..], &["--explain", EDGES]].concat()).out();
    assert!(plan.contains("machine 2 ("), "{plan}");
    for (more, says) in
        [(&[][..], "it speaks TLS alone"), (&["--tls-ca", &other.roots], "signed by none of the authorities")]
    {
        let refused = ask(&store, &addresses, &[more, &question].concat());
        assert!(refused.code() == Some(1) && refused.err().contains(says), "{}", refused.err());
        assert!(refused.err().contains(addresses[0]), "{}", refused.err());
    }
    // One is killed while queries run: the rows are right, or the error names it.
    for round in 0..4 {
        let (victim, delay) = (round % 2, Duration::from_millis(30 * (round as u64 + 1)));
        let mut command = asked(&store, &addresses, &[&roots[..], &question].concat());
        let asking = thread::spawn(move || ended(&mut command));
        thread::sleep(delay);
        nodes[victim].child.kill().unwrap();
        nodes[victim].child.wait().unwrap();
        let found = asking.join().unwrap();
        match found.code() {
            Some(0) => assert_eq!(found.out(), expected.out(), "round {round}: {}", found.err()),
            code => assert!(code == Some(1) && found.err().contains(addresses[victim]), "{}", found.err()),
        }
        nodes[victim] = Node::start_at(&store, addresses[victim], &texts(&here));
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// A server shares with nodes by TLS and is one itself. It begins without those that do not fit, and says why.
#[test]
fn a_server_shares_by_tls_and_is_a_node_by_tls() {
    let folder = folder("served-tls");
    let store = people(&folder, "own", 300);
    let (authority, other) = (Authority::new(&folder, "ca"), Authority::new(&folder, "other"));
    let (here, strange) = (authority.here("node"), other.here("strange"));
    let node = Node::start(&store, &texts(&here));
    let (plain, strange) = (Node::start(&store, &[]), Node::start(&store, &texts(&strange)));
    let addresses = [&node.address[..], &plain.address, &strange.address];
    let server = Server::start(&store, &addresses, &["--tls-ca", &authority.roots]);
    assert_eq!(server.machines(), 2, "{}", server.said());
    assert_eq!(server.rows(EDGES).unwrap().len(), 301);
    let said = server.said();
    for (address, why) in
        [(&plain.address, "it does not speak TLS"), (&strange.address, "signed by none of the authorities")]
    {
        let line = said.lines().find(|line| line.contains(address.as_str())).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(why) && line.contains("it is left out until it can be had"), "{line}");
    }
    // A node that comes back with another certificate is not trusted any more.
    let address = node.address.clone();
    drop(node);
    wait_for(|| server.rows(EDGES).is_ok_and(|rows| rows.len() == 301) && server.machines() == 1, "a team of one");
    let node = Node::start_at(&store, &address, &texts(&other.here("other")));
    thread::sleep(Duration::from_secs(6));
    assert_eq!(server.machines(), 1, "{}", server.said());
    assert_eq!(server.rows(EDGES).unwrap().len(), 301);
    drop((node, server));
    // A server with a certificate is a node with the same one.
    let mut serve = vicus(&["serve", "--bind", "127.0.0.1:0", "--threads", "1", "--store", text(&store)]);
    serve.args(["--listen-node", "127.0.0.1:0"]).args(texts(&here));
    let server = Server::of(serve, true, &store.with_extension("node"));
    let node = server.node.clone().expect("it says where");
    let roots = ["--tls-ca", &authority.roots];
    let expected = ask(&store, &[], &["--format", "count", EDGES]);
    let found = ask(&store, &[&node], &[&roots[..], &["--format", "count", EDGES]].concat());
    assert_eq!((found.code(), found.out(), found.err()), (Some(0), expected.out(), String::new()));
    let refused = ask(&store, &[&node], &[EDGES]);
    assert!(refused.code() == Some(1) && refused.err().contains("it speaks TLS alone"), "{}", refused.err());
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}
