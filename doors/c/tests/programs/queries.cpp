// Queries, by vicus.h and by vicus.hpp. Arguments are a strategy, a number of threads, and a folder for this run alone.
#include <vicus.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "check.h"

static const char *people =
    "@prefix e: <http://e/> . e:ann e:age 27 ; e:name \"Ann\"@en ; e:knows e:bob . e:bob e:age 31 ; e:name \"Bob\" .";
static const std::string prefix = "PREFIX e: <http://e/> ";

template <class F>
static vicus::error failure(F &&f) {
    try {
        f();
    } catch (const vicus::error &error) {
        return error;
    }
    return vicus::error(0, "nothing was thrown");
}

static void answers(const vicus::runtime &runtime) {
    auto data = vicus::data::parse(runtime, people, "ttl");
    CHECK(data.quads() == 5);
    auto rows = data.rows(prefix + "SELECT ?x ?name ?friend { ?x e:name ?name OPTIONAL { ?x e:knows ?friend } } ORDER BY ?x");
    CHECK(rows.size() == 2 && rows[0] == (std::vector<std::string>{"<http://e/ann>", "\"Ann\"@en", "<http://e/bob>"}) && rows[1][2].empty());
    auto stream = data.query(prefix + "SELECT ?x ?age { ?x e:age ?age } ORDER BY ?age");
    std::string ages;
    while (auto batch = stream.next()) {
        CHECK(batch->columns() == 2 && batch->name(1) == "age" && batch->format(1) == std::string("i") && !batch->is_null(0, 0));
        for (std::size_t row = 0; row < batch->rows(); ++row) ages += *batch->text(row, 1);
    }
    CHECK(ages == "\"27\"^^<http://www.w3.org/2001/XMLSchema#integer>\"31\"^^<http://www.w3.org/2001/XMLSchema#integer>");
    CHECK(!stream.next());
    CHECK(data.ask(prefix + "ASK { e:ann e:knows e:bob }") && !data.ask(prefix + "ASK { e:bob e:knows e:ann }"));
    auto truth = data.query(prefix + "ASK { e:ann e:age 27 }");
    auto answer = truth.next();
    CHECK(answer && answer->rows() == 1 && answer->name(0) == "answer" && answer->truth(0, 0) && !truth.next());
    CHECK(data.count(prefix + "CONSTRUCT { ?y e:known ?x } { ?x e:knows ?y }") == 1);
    rows = data.rows(prefix + "CONSTRUCT { ?y e:known ?x } { ?x e:knows ?y }");
    CHECK(rows.size() == 1 && rows[0] == (std::vector<std::string>{"<http://e/bob>", "<http://e/known>", "<http://e/ann>"}));
    CHECK(data.write(prefix + "SELECT ?age { e:ann e:age ?age }", "csv") == "age\r\n27\r\n");
    CHECK(data.explain(prefix + "SELECT ?age { e:ann e:age ?age }").find("scan") != std::string::npos);
    vicus::query_options sql;
    sql.sql = true;
    CHECK(data.count("SELECT object FROM \"http://e/age\" ORDER BY object", sql) == 2);
    auto counts = data.query("SELECT COUNT(*) AS n FROM \"http://e/age\"", sql);
    CHECK(counts.next()->numbers<std::int64_t>(0)[0] == 2);
    vicus::query_options first;
    first.first_rows = 1;
    CHECK(data.rows(prefix + "SELECT * { ?x e:age ?age }", first).size() == 1);
    first.base = "http://e/";
    CHECK(data.ask("ASK { <ann> <age> 27 }", first));

    // Changes: whole or not at all, and what is read stays as it was.
    auto before = data.query("SELECT * { ?s ?p ?o }");
    data.update(prefix + "INSERT DATA { e:cid e:age 40 } ; DELETE WHERE { e:bob ?p ?o }");
    std::size_t rows_before = 0;
    while (auto batch = before.next()) rows_before += batch->rows();
    CHECK(data.quads() == 4 && rows_before == 5);
    CHECK(failure([&] { data.update(prefix + "INSERT DATA { e:dan e:age 1 } ; LOAD <file:///no/such/file.ttl>"); }).status() != 0);
    CHECK(data.quads() == 4);
    auto empty = vicus::data::load(runtime, {});
    CHECK(empty.quads() == 0 && empty.rows("SELECT * { ?s ?p ?o }").empty());
    auto prepared = data.prepare(prefix + "SELECT ?x { ?x e:age ?age }");
    data.update(prefix + "INSERT DATA { e:eve e:age 50 }");
    for (int round = 0; round < 3; ++round) {
        std::size_t found = 0;
        auto again = prepared.query();
        while (auto batch = again.next()) found += batch->rows();
        CHECK(found == 2);
    }
    data.update(prefix + "DELETE WHERE { e:eve ?p ?o }");
    // In a task, and several at once.
    std::atomic<int> right{0};
    runtime.for_each(0, 8, [&](std::size_t) { right += data.rows(prefix + "SELECT ?x { ?x e:age ?age }").size() == 2; });
    CHECK(right == 8);
}

// An answer that is longer than what may be unread.
static void long_answers(const vicus::runtime &runtime) {
    auto data = vicus::data::load(runtime, {});
    std::string insert = "INSERT DATA {";
    for (int n = 0; n < 400; ++n) insert += " <http://e/" + std::to_string(n) + "> <http://e/p> " + std::to_string(n) + " .";
    data.update(insert + "}");
    const std::string product = "SELECT ?a ?b { ?a <http://e/p> ?x . ?b <http://e/p> ?y }";
    for (bool any_order : {false, true}) {
        vicus::query_options said;
        said.any_order = any_order;
        auto stream = data.query(product, said);
        std::size_t rows = 0, batches = 0;
        while (auto batch = stream.next()) {
            rows += batch->rows();
            if (++batches % 8 == 0) std::this_thread::yield();
        }
        CHECK(rows == 160'000 && batches > 16);
        // Released early, which ends it.
        auto broken_off = data.query(product, said);
        CHECK(broken_off.next());
        auto never_read = data.query(product, said);
    }
    runtime.run([&] {
        std::size_t rows = 0;
        auto stream = data.query(product);
        while (auto batch = stream.next()) rows += batch->rows();
        CHECK(rows == 160'000);
    });
    vicus::query_options few;
    few.most_rows = 1000;
    auto stream = data.query(product, few);
    auto error = failure([&] { while (stream.next()) {} });
    CHECK(error.status() == VICUS_ERROR_LIMIT && std::string(error.what()).find("1000 rows") != std::string::npos);
    vicus::query_options quick;
    quick.timeout_ms = 1;
    // Of 64 million rows.
    const std::string long_one = "SELECT ?a ?b ?c { ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z }";
    CHECK(failure([&] { data.count(long_one, quick); }).status() == VICUS_ERROR_LIMIT);
    vicus::query_options small;
    small.memory_bytes = 400'000;
    CHECK(failure([&] { data.count(product + " ORDER BY ?b ?a", small); }).status() == VICUS_ERROR_LIMIT);
}

// Each row comes once, however slowly it is read.
static void rows_once(const vicus::runtime &runtime) {
    constexpr std::size_t side = 200, all = side * side;
    auto data = vicus::data::load(runtime, {});
    std::string insert = "INSERT DATA {";
    for (std::size_t n = 0; n < side; ++n) insert += " <http://e/" + std::to_string(n) + "> <http://e/p> " + std::to_string(n) + " .";
    data.update(insert + "}");
    const auto number = [](std::string_view iri) { return std::stoul(std::string(iri.substr(iri.rfind('/') + 1))); };
    vicus::query_options any, sql;
    any.any_order = true;
    sql.sql = true;
    const std::string pairs = "{ ?a <http://e/p> ?x . ?b <http://e/p> ?y }";
    struct asked { std::string text; vicus::query_options options; };
    const asked answers[] = {
        {"SELECT ?a ?b " + pairs, {}},
        {"SELECT ?a ?b " + pairs, any},
        {"CONSTRUCT { ?a <http://e/q> ?b } " + pairs, {}},
        {"CONSTRUCT { ?a <http://e/q> ?b } " + pairs, any},
        {"SELECT a.object * 200 + b.object AS n FROM \"http://e/p\" a, \"http://e/p\" b", sql},
    };
    for (const auto &answer : answers) {
        for (bool pauses : {false, true}) {
            auto stream = data.query(answer.text, answer.options);
            // By then it has written as much as may be unread.
            if (pauses) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            std::vector<int> seen(all);
            std::size_t batches = 0;
            while (auto batch = stream.next()) {
                for (std::size_t row = 0; row < batch->rows(); ++row) {
                    std::size_t place = answer.options.sql
                        ? static_cast<std::size_t>(batch->numbers<std::int64_t>(0)[row])
                        : number(*batch->text(row, 0)) * side + number(*batch->text(row, batch->columns() - 1));
                    CHECK(place < all);
                    ++seen[place];
                }
                ++batches;
                if (!pauses) std::this_thread::sleep_for(std::chrono::microseconds(100));
                else if (batches % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
            CHECK(batches > 4 && std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
        }
    }
}

static void errors(const vicus::runtime &runtime, const std::string &folder) {
    auto data = vicus::data::parse(runtime, people, "ttl");
    auto error = failure([&] { data.query("SELECT ?x {\n  ?x <http://e/p> }"); });
    CHECK(error.status() == VICUS_ERROR_QUERY && error.line() == 2 && error.column() > 1);
    CHECK(failure([&] { data.update("INSERT WHERE"); }).status() == VICUS_ERROR_QUERY);
    CHECK(failure([&] { data.write("SELECT * { ?s ?p ?o }", "prose"); }).status() == VICUS_ERROR_SETTING);
    CHECK(failure([&] { data.write("SELECT * { ?s ?p ?o }", "ntriples"); }).status() != 0);
    CHECK(failure([&] { vicus::data::parse(runtime, "<http://e/a> <http://e/b>", "nt"); }).status() == VICUS_ERROR_DATA);
    CHECK(failure([&] { vicus::data::parse(runtime, "", "prose"); }).status() == VICUS_ERROR_SETTING);
    error = failure([&] { vicus::data::load(runtime, {folder + "/none.ttl"}); });
    CHECK(error.status() == VICUS_ERROR_DATA && std::string(error.what()).find("none.ttl") != std::string::npos);
    CHECK(failure([&] { vicus::data::load(runtime, {folder}); }).status() == VICUS_ERROR_DATA);
    CHECK(failure([&] { vicus::data::open(runtime, folder + "/none", VICUS_OPEN_EXISTING); }).status() == VICUS_ERROR_DATA);
    ArrowArrayStream stream;
    std::uint64_t count = 0;
    vicus_query_options options = VICUS_QUERY_OPTIONS_INIT;
    CHECK_ERROR(vicus_query(nullptr, "ASK {}", nullptr, &stream), VICUS_ERROR_ARGUMENT, "`data` is a null handle");
    CHECK_ERROR(vicus_query(data.get(), nullptr, nullptr, &stream), VICUS_ERROR_ARGUMENT, "`text` is null");
    CHECK_ERROR(vicus_query(data.get(), "ASK {}", nullptr, nullptr), VICUS_ERROR_ARGUMENT, "`stream` is null");
    options.size = 4;
    CHECK_ERROR(vicus_query_count(data.get(), "ASK {}", &options, &count), VICUS_ERROR_ARGUMENT, "VICUS_QUERY_OPTIONS_INIT");
    options.size = sizeof options;
    options.language = 9;
    CHECK_ERROR(vicus_query_count(data.get(), "ASK {}", &options, &count), VICUS_ERROR_ARGUMENT, "language");
    const vicus_write_fn refuses = [](void *, const char *, size_t) { return vicus_fail(77, "no more", nullptr, nullptr); };
    CHECK_ERROR(vicus_query_write(data.get(), "SELECT * { ?s ?p ?o }", nullptr, "csv", refuses, nullptr), 77, "no more");
    vicus_data_free(nullptr), vicus_prepared_free(nullptr);
    CHECK(failure([&] { data.prepare("SELECT"); }).status() == VICUS_ERROR_QUERY);
    CHECK_ERROR(vicus_prepared_query(nullptr, &stream), VICUS_ERROR_ARGUMENT, "`prepared` is a null handle");
    // A runtime that data still uses is kept by it.
    auto other = std::make_unique<vicus::runtime>(vicus::options().threads(1).set("quiet", "yes"));
    auto kept = vicus::data::parse(*other, people, "ttl");
    other.reset();
    CHECK(kept.count("SELECT * { ?s ?p ?o }") == 5);
}

static void stores(const vicus::runtime &runtime, const std::string &folder) {
    const std::string store = folder + "/store";
    {
        auto data = vicus::data::open(runtime, store);
        data.update(prefix + "INSERT DATA { e:ann e:age 27 }");
        data.update(prefix + "INSERT { ?x e:older ?more } WHERE { ?x e:age ?age BIND (?age + 1 AS ?more) }");
        CHECK(data.quads() == 2);
        CHECK(failure([&] { vicus::data::open(runtime, store); }).status() == VICUS_ERROR_DATA);
    }
    auto again = vicus::data::open(runtime, store, VICUS_OPEN_EXISTING);
    CHECK(again.ask(prefix + "ASK { e:ann e:older 28 }"));
    const std::string file = folder + "/people.ttl";
    std::ofstream(file) << people;
    CHECK(vicus::data::load(runtime, {file, file}).quads() == 5);
    auto memory = vicus::data::parse(runtime, "<http://e/x> <http://e/y> <http://e/z> .", "nt");
    for (vicus::data *data : {&memory, &again}) {
        const auto before = data->quads();
        data->add({file}, "http://e/g");
        CHECK(data->quads() == before + 5 && data->ask(prefix + "ASK { GRAPH e:g { e:bob e:age 31 } }"));
        CHECK(failure([&] { data->add({file, folder + "/none.nt"}); }).status() == VICUS_ERROR_DATA);
        CHECK(failure([&] { data->add({file}, "no IRI"); }).status() == VICUS_ERROR_SETTING);
        CHECK(data->quads() == before + 5);
        data->add({file});
        CHECK(data->ask(prefix + "ASK { e:bob e:age 31 }"));
    }
}

// Tables in files, and queries that another thread cancels.
static void tables_and_cancelling(const vicus::runtime &runtime, const std::string &folder) {
    auto data = vicus::data::parse(runtime, people, "ttl");
    const std::string path = folder + "/prices.csv";
    std::ofstream(path) << "item,price\nham,3\neggs,2\nspam,9\n";
    data.add_table("prices", path);
    vicus::query_options sql;
    sql.sql = true;
    CHECK(data.write("SELECT item FROM prices WHERE price > 2 ORDER BY item", "csv", sql) == "item\r\nham\r\nspam\r\n");
    auto sum = data.query("SELECT SUM(price) AS all FROM prices", sql);
    CHECK(sum.next()->numbers<std::int64_t>(0)[0] == 14);
    auto prepared = data.prepare("SELECT item FROM prices", sql);
    std::ofstream(folder + "/other.csv") << "item,price\ntea,1\n";
    data.add_table("prices", folder + "/other.csv");
    CHECK(prepared.query().next()->rows() == 3 && data.count("SELECT item FROM prices", sql) == 1);
    CHECK(data.count("SELECT p.price FROM prices p, \"http://e/age\" a", sql) == 2);
    auto missing = failure([&] { data.add_table("none", folder + "/none.csv"); });
    CHECK(missing.status() == VICUS_ERROR_DATA && std::string(missing.what()).find("none.csv") != std::string::npos);

    vicus::query_options given;
    given.by.emplace();
    CHECK(data.ask(prefix + "ASK { e:ann e:age 27 }", given));
    // 100,000,000 rows take long enough that the other thread cancels in between.
    std::string many = "SELECT * {";
    for (int at = 0; at < 8; ++at) many += " VALUES ?v" + std::to_string(at) + " { 0 1 2 3 4 5 6 7 8 9 }";
    std::atomic<bool> begins{false};
    const vicus::cancel by = *given.by;
    std::thread other([&] {
        while (!begins) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        by.all();
    });
    begins = true;
    CHECK(failure([&] { data.count(many + " }", given); }).status() == VICUS_ERROR_CANCELLED);
    other.join();
    CHECK(failure([&] { data.ask(prefix + "ASK { e:ann e:age 27 }", given); }).status() == VICUS_ERROR_CANCELLED);
    CHECK(data.ask(prefix + "ASK { e:ann e:age 27 }"));
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    vicus::runtime runtime(vicus::options().strategy(argv[1]).set("threads", argv[2]).set("quiet", "yes"));
    answers(runtime);
    long_answers(runtime);
    rows_once(runtime);
    errors(runtime, argv[3]);
    stores(runtime, argv[3]);
    tables_and_cancelling(runtime, argv[3]);
    std::puts("ok");
}
