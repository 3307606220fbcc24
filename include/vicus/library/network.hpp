/**
 * @file network.hpp
 * Networks of boxes of vicus.hpp, which includes this.
 */
#ifndef VICUS_LIBRARY_NETWORK_HPP
#define VICUS_LIBRARY_NETWORK_HPP

#include "arrow.hpp"

namespace vicus {

/** Resumes a paused box when it is destroyed. */
using paused = capi::handle<vicus_paused, vicus_resume>;

/** What an invocation of a box sees and does. */
class turn {
public:
    explicit turn(vicus_turn *own) noexcept : own_(own) {}
    /** The rows that came to an input; nothing if none did, or the input has ended. At most once in an invocation. */
    std::optional<batch> take(std::uint32_t input) {
        ArrowArray rows{};
        std::int32_t what = VICUS_TAKEN_NOTHING;
        capi::check(vicus_turn_take(own_, input, &rows, &what));
        has_ended_ = what == VICUS_TAKEN_END;
        if (what != VICUS_TAKEN_ROWS) return std::nullopt;
        batch found(rows, nullptr);
        std::shared_ptr<ArrowSchema> columns(new ArrowSchema{}, [](ArrowSchema *gone) {
            if (gone->release) gone->release(gone);
            delete gone;
        });
        capi::check(vicus_turn_schema(own_, input, columns.get()));
        return std::optional<batch>(batch(found.release(), std::move(columns)));
    }
    /** Whether the last `take` found the input's end. */
    bool has_ended() const noexcept { return has_ended_; }
    /** Sends rows, of which nothing is left in the table. */
    void send(std::uint32_t output, table &rows) {
        ArrowArray given = rows.release();
        capi::check(vicus_turn_send(own_, output, &given, nullptr));
    }
    void send(std::uint32_t output, table &&rows) { send(output, rows); }
    /** Passes rows on, without a copy. */
    void send(std::uint32_t output, batch rows) {
        ArrowArray given = rows.release();
        capi::check(vicus_turn_send(own_, output, &given, &rows.schema()));
    }
    void end(std::uint32_t output) { capi::check(vicus_turn_end(own_, output)); }
    void end_all() { capi::check(vicus_turn_end_all(own_)); }
    void close(std::uint32_t input) { capi::check(vicus_turn_close(own_, input)); }
    bool has_room(std::uint32_t output) noexcept { return vicus_turn_has_room(own_, output) != 0; }
    void run_again() noexcept { vicus_turn_run_again(own_); }
    /** Calls what may block, while another thread runs other boxes. */
    template <class F>
    void blocking(F &&f) {
        capi::check(vicus_turn_blocking(own_, capi::call_borrowed<std::remove_reference_t<F>>, capi::address(f)));
    }
    /** Lets the box rest, until what this returns is destroyed, on any thread. */
    paused pause() {
        vicus_paused *made = nullptr;
        capi::check(vicus_turn_pause(own_, &made));
        return paused(made);
    }
    bool is_stopped() const noexcept { return vicus_turn_is_stopped(own_) != 0; }
    void book(std::uint64_t bytes) { capi::check(vicus_turn_book(own_, bytes)); }
    std::uint32_t node() const noexcept { return vicus_turn_node(own_); }
    vicus_turn *get() const noexcept { return own_; }

private:
    vicus_turn *own_;
    bool has_ended_ = false;
};

/** A network that is complete. */
class model {
public:
    explicit model(vicus_model *own) noexcept : own_(own) {}
    /** Begins to run it. */
    request submit(const runtime &on, std::uint64_t memory_bytes = 0) const {
        vicus_request *begun = nullptr;
        capi::check(vicus_runtime_submit(on.get(), own_.get(), memory_bytes, &begun));
        return request(begun);
    }
    /** Begins to run it, with what is said of the run. */
    request submit(const runtime &on, const vicus_request_options &options) const {
        vicus_request *begun = nullptr;
        capi::check(vicus_runtime_submit_with(on.get(), own_.get(), &options, &begun));
        return request(begun);
    }
    /** Runs it to its end. What a box throws is thrown here. */
    void run(const runtime &on, std::uint64_t memory_bytes = 0) const { submit(on, memory_bytes).wait(); }

private:
    capi::handle<vicus_model, vicus_model_free> own_;
};

/** A network that is put together. */
class network {
public:
    /** A box of it, by its number. */
    struct box {
        std::uint32_t number;
    };

    explicit network(const std::string &name) {
        init();
        vicus_network *made = nullptr;
        capi::check(vicus_network_new(name.c_str(), &made));
        own_.reset(made);
    }
    /** Adds a box that does `act(turn &)` in each invocation. Each run has a copy of the callable: what a `mutable` lambda has captured is the box's
     *  state. Without inputs, it starts by itself. */
    template <class F>
    box add(const std::string &name, const std::vector<schema> &inputs, const std::vector<schema> &outputs, F act) {
        vicus_operator what = VICUS_OPERATOR_INIT;
        what.create = [](void *kept, void **state) noexcept -> std::int32_t {
            return capi::guard([&] { *state = new F(*static_cast<const F *>(kept)); });
        };
        what.act = [](void *state, vicus_turn *own) noexcept -> std::int32_t {
            return capi::guard([&] {
                turn now(own);
                (*static_cast<F *>(state))(now);
            });
        };
        what.destroy = [](void *state) { delete static_cast<F *>(state); };
        what.drop = what.destroy;
        what.data = new F(std::move(act));
        std::vector<const ArrowSchema *> from, to;
        for (const schema &one : inputs) from.push_back(one.get());
        for (const schema &one : outputs) to.push_back(one.get());
        box added{0};
        capi::check(vicus_network_add(own_.get(), name.c_str(), &what, from.data(), from.size(), to.data(), to.size(), &added.number));
        return added;
    }
    network &connect(box from, std::uint32_t output, box to, std::uint32_t input) {
        capi::check(vicus_network_connect(own_.get(), from.number, output, to.number, input));
        return *this;
    }
    /** With a bound of its own for the input. */
    network &connect(box from, std::uint32_t output, box to, std::uint32_t input, std::uint32_t tables, std::uint64_t bytes) {
        capi::check(vicus_network_connect_bounded(own_.get(), from.number, output, to.number, input, tables, bytes));
        return *this;
    }
    /** The receiver gets these columns for itself and may change them in place. */
    network &connect_private(box from, std::uint32_t output, box to, std::uint32_t input, const std::vector<std::uint32_t> &columns) {
        capi::check(vicus_network_connect_private(own_.get(), from.number, output, to.number, input, columns.data(), columns.size()));
        return *this;
    }
    /** The box takes all of this input before it takes from others or sends anything. */
    network &takes_all(box of, std::uint32_t input = 0) {
        capi::check(vicus_network_takes_all(own_.get(), of.number, input));
        return *this;
    }
    network &connect(box from, box to) { return connect(from, 0, to, 0); }
    /** A run is over when this output has ended, and all others of which this was said. */
    network &end(box from, std::uint32_t output = 0) {
        capi::check(vicus_network_end(own_.get(), from.number, output));
        return *this;
    }
    model build() {
        vicus_model *built = nullptr;
        capi::check(vicus_network_build(own_.get(), &built));
        return model(built);
    }

private:
    capi::handle<vicus_network, vicus_network_free> own_;
};

} // namespace vicus

#endif
