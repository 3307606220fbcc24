//! Examples in the help of commands. A test runs them as they stand here.

pub(crate) const QUERY: &str = "\
Examples:
  vicus query --data people.ttl 'SELECT * { ?s ?p ?o } LIMIT 10'
  vicus query --store db --format csv --timeout 10 'SELECT * { ?s ?p ?o }'
  vicus query --data people.ttl --explain --timings 'SELECT (COUNT(*) AS ?n) { ?s ?p ?o }'";

pub(crate) const SQL: &str = "\
Examples:
  vicus sql \"SELECT city, COUNT(*) AS people FROM 'people.csv' GROUP BY city\"
  vicus sql --table p=people.csv --format json 'SELECT name FROM p WHERE age > 40'
  vicus sql --data people.ttl \"SELECT who FROM SPARQL('SELECT ?who { ?who ?p ?o }') LIMIT 5\"";

pub(crate) const LOAD: &str = "\
Examples:
  vicus load --store new --data people.ttl
  vicus load --store more --data people.ttl --data names.nt";

pub(crate) const UPDATE: &str = "\
Examples:
  vicus update --store db 'INSERT DATA { <http://e/ann> <http://e/knows> <http://e/bob> }'
  vicus update --store empty --create 'INSERT DATA { <http://e/ann> <http://e/age> 41 }'";

pub(crate) const BACKUP: &str = "\
Examples:
  vicus backup --store db archive
  vicus backup --store db --output copy";

pub(crate) const RESTORE: &str = "\
Examples:
  vicus restore archive --store again
  vicus restore archive --store before --until 1";

pub(crate) const SERVE: &str = "\
Examples:
  vicus serve --data people.ttl
  vicus serve --store db --create --token SECRET --timeout 30 --total-memory 2G";

pub(crate) const NETWORK: &str = "\
Examples:
  vicus network kinds filter
  echo 'box n = numbers(to: 3); box rows = collect; n -> rows;' | vicus network run -";

pub(crate) const NODE: &str = "\
Examples:
  vicus node --listen 127.0.0.1:7001 --folder data";

pub(crate) const SIMULATE: &str = "\
Examples:
  vicus simulate --machine opteron-6172 --kernel map --strategy las,vicus,steal";

pub(crate) const TOPOLOGY: &str = "\
Examples:
  vicus topology
  vicus topology --format svg";

pub(crate) const GENERATE: &str = "\
Examples:
  vicus generate sp2b --triples 1000 --output sp2b.nt
  vicus generate shop --products 100 --output shop.nt";

pub(crate) const DUMP: &str = "\
Examples:
  vicus dump --store db --output db.nq.gz
  vicus dump --store db --graph default --output db.ttl --prefix e=http://e/";

pub(crate) const CHECK: &str = "\
Examples:
  vicus check --store db";

pub(crate) const COMPACT: &str = "\
Examples:
  vicus compact --store db";

pub(crate) const PROMOTE: &str = "\
Examples:
  vicus promote http://copy:7878 --other http://third:7878";

#[cfg(target_os = "linux")]
pub(crate) const RUN: &str = "\
Examples:
  vicus run --summary ./program
  vicus run --trace program.trace --strategy footprint ./program 20";

pub(crate) const STRATEGIES: &str = "\
Examples:
  vicus strategies
  vicus strategies --plan footprint --machine opteron-6172";

pub(crate) const LEARN: &str = "\
Examples:
  vicus learn program.trace --output learned.toml";

pub(crate) const CALIBRATE: &str = "\
Examples:
  vicus calibrate --output here.toml";

pub(crate) const TRACE: &str = "\
Examples:
  vicus query --data people.ttl --trace run.trace 'SELECT * { ?s ?p ?o }'
  vicus trace summary run.trace
  vicus trace view run.trace --output run.html";

pub(crate) const BENCH: &str = "\
Examples:
  vicus bench flow
  vicus bench --json kernels.json kernels";

pub(crate) const MANUAL: &str = "\
Examples:
  vicus manual --completions bash
  vicus manual --pages man1";
