// Compiled entries, the cache of one code object, and the map from code objects to caches.
#pragma once

#include "guards.h"

#include <algorithm>
#include <utility>

namespace jit {

// Compiled code and the guards under which it stands for the original.
struct EntryState {
    Owned<GuardsObject> guards;
    Ref function;  // none: the guards hold, and the original is to be run
    Ref meta;
    int64_t hits = 0;
    bool packed = false;  // the values come as one tuple

    Py_ssize_t value_parameters() const {
        const size_t count = guards->value_count();
        return packed ? count > 0 : count;
    }

    int visit(visitproc visitor, void* argument) const { return visit_all(visitor, argument, guards, function, meta); }
    void clear() {
        // Guards stay: an entry in use must not lose them under way, and they are never the last link of a cycle.
        function.reset();
        meta.reset();
    }
};
using Entry = Instance<EntryState>;
extern PyTypeObject* entry_type;

// Since the process began: look-ups that found an entry, and times that the compiler was asked for one.
struct Counters {
    int64_t hits = 0, misses = 0;
};
extern Counters counters;

// What a look-up found.
struct Hit {
    Owned<Entry> entry;
    Values values;
    explicit operator bool() const { return bool(entry); }
    PyObject* function() const { return entry->function.get(); }
    // Puts the values where the parameters behind the slots are, borrowed.
    void put_values(PyObject** place) const {
        if (entry->packed) {
            if (values.tuple()) *place = values.tuple();
        } else {
            std::copy_n(values.data(), values.size(), place);
        }
    }
};

// How long calls took, in nanoseconds, without what was compiled meanwhile.
struct Times {
    int64_t written_calls = 0, written = 0;
    int64_t compiled_calls = 0, compiled = 0;
    bool warm = false;  // the first compiled call is not counted: kernels are loaded in it

    void add(int64_t spent, bool was_compiled) {
        if (was_compiled && !std::exchange(warm, true)) return;
        ++(was_compiled ? compiled_calls : written_calls);
        (was_compiled ? compiled : written) += spent;
    }
};

struct CacheState {
    Owned<PyCodeObject> code;
    Owned<PyTupleObject> entries;  // newest hit first; replaced as a whole, so a look-up under way keeps what it started with
    Py_ssize_t limit = 0;
    int64_t misses = 0;
    bool frozen = false;
    bool timed = false;  // frames that the hook runs are timed
    bool stepped = false;  // doors find its entries while sys.settrace is in force, too
    Times times;

    // Whether there is no entry, and none to come.
    bool is_given_up() const { return frozen && entries && PyTuple_GET_SIZE(entries.as_object()) == 0; }
    Hit find(const CallContext& call);
    void replace_entries(Ref tuple) { entries = Owned<PyTupleObject>::take(tuple.release()); }

    int visit(visitproc visitor, void* argument) const { return visit_all(visitor, argument, code, entries); }
    void clear() { entries.reset(); }
};
using Cache = Instance<CacheState>;
extern PyTypeObject* cache_type;

// Evaluates one entry.
Hit try_entry(Entry* entry, const CallContext& call);

// Asks `miss(subject, slots, function)` for an entry, with the thread marked as compiling, and evaluates that once.
// No hit: run the original. Throws PythonError if `miss` raised.
Hit compile_on_miss(Cache* cache, PyObject* miss, PyObject* subject, const CallContext& call, PyObject* function);

// Identity map from code objects to caches; None in place of a cache: never compile this code.
class CodeMap {
public:
    // The cache or None, borrowed; null if the code is not known.
    PyObject* find(PyObject* code) const {
        if (slots_.empty()) return nullptr;
        for (size_t i = hash(code);; i = (i + 1) & mask()) {
            const Slot& slot = slots_[i];
            if (slot.code.get() == code) return slot.cache.get();
            if (!slot.code) return nullptr;
        }
    }
    void set(PyObject* code, PyObject* cache);
    size_t size() const { return used_; }

    int visit(visitproc visitor, void* argument) const;
    void clear();

private:
    struct Slot {
        Ref code, cache;
    };
    size_t mask() const { return slots_.size() - 1; }
    size_t hash(PyObject* code) const { return ((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u >> 32 & mask(); }
    void grow();

    std::vector<Slot> slots_;  // a power of two, never more than half full
    size_t used_ = 0;
};
using Caches = Instance<CodeMap>;
extern PyTypeObject* caches_type;

}  // namespace jit
