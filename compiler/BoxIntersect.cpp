#include "compiler/BoxMap.h"

#include <algorithm>

namespace mbc::compiler {
namespace {

constexpr size_t maxBoxes = 1 << 20;

/// A dim of one of the two sets that are intersected: `step` in the middle
/// tensor, `other` in the tensor on the far side.
struct SetDim {
  int64_t count, step, other;
};

struct Set {
  int64_t offset, other;    ///< of the first element, here and on the far side
  std::vector<SetDim> dims; ///< nested, outermost first

  int64_t span() const {
    int64_t sum = 0;
    for (const SetDim &dim : dims)
      sum += (dim.count - 1) * dim.step;
    return sum;
  }
};

int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t ceilDiv(int64_t a, int64_t b) { return -floorDiv(-a, b); }

/// `set` restricted to the indices [from, from + count) of its outermost dim.
Set narrowed(const Set &set, int64_t from, int64_t count) {
  Set result = set;
  result.offset += from * set.dims[0].step;
  result.other += from * set.dims[0].other;
  if (count == 1)
    result.dims.erase(result.dims.begin());
  else
    result.dims[0].count = count;
  return result;
}

Set withoutTop(Set set) {
  set.dims.erase(set.dims.begin());
  return set;
}

/// All pairs of equal elements of two nested sets in the middle tensor.
class Intersection {
public:
  explicit Intersection(std::vector<Box> &out, bool firstOnly = false)
      : out(out), firstOnly(firstOnly) {}

  bool tooMany() const { return out.size() > maxBoxes; }

  /// `source` writes the middle tensor, `target` reads it.
  void run(Set source, Set target) {
    if (tooMany() || (firstOnly && !out.empty()))
      return;
    if (!clip(source, target) || !clip(target, source))
      return;
    if (source.dims.empty() && target.dims.empty())
      return emit(source, target);
    int64_t p = source.dims.empty() ? 0 : source.dims[0].step;
    int64_t q = target.dims.empty() ? 0 : target.dims[0].step;
    if (p == q)
      return equalSteps(source, target);
    bool sourceTop = p > q;
    Set &large = sourceTop ? source : target;
    Set &small = sourceTop ? target : source;
    int64_t step = std::max(p, q), inner = std::min(p, q);
    // The small set spans less than a period: after clipping, the large one
    // has at most two indices left.
    if (large.dims[0].count <= 2 || inner == 0)
      return unroll(large, small, sourceTop);
    if (step % inner == 0)
      return splitPeriods(large, small, sourceTop);
    if (large.dims[0].count <= small.dims[0].count)
      return unroll(large, small, sourceTop);
    unroll(small, large, !sourceTop);
  }

private:
  /// Narrows the outermost dim of `set` to the indices that can reach
  /// `other`'s range; false if none can.
  static bool clip(Set &set, const Set &other) {
    int64_t low = other.offset, high = other.offset + other.span();
    int64_t span = set.span();
    if (set.offset > high || set.offset + span < low)
      return false;
    if (set.dims.empty())
      return true;
    const SetDim &top = set.dims[0];
    int64_t inner = span - (top.count - 1) * top.step;
    int64_t from =
        std::max<int64_t>(0, ceilDiv(low - set.offset - inner, top.step));
    int64_t to = std::min(top.count - 1, floorDiv(high - set.offset, top.step));
    if (from > to)
      return false;
    if (from != 0 || to != top.count - 1)
      set = narrowed(set, from, to - from + 1);
    return true;
  }

  void recurse(Set a, Set b, bool aIsSource) {
    if (aIsSource)
      run(std::move(a), std::move(b));
    else
      run(std::move(b), std::move(a));
  }

  void unroll(const Set &set, const Set &other, bool setIsSource) {
    for (int64_t index = 0; index != set.dims[0].count && !tooMany(); ++index)
      recurse(narrowed(set, index, 1), other, setIsSource);
  }

  /// Both outermost dims step alike: their indices differ by a constant, and
  /// since the inner spans are below the step, at most two constants do.
  void equalSteps(const Set &source, const Set &target) {
    int64_t step = source.dims[0].step;
    int64_t delta = source.offset - target.offset;
    Set innerSource = withoutTop(source), innerTarget = withoutTop(target);
    int64_t low = ceilDiv(delta - innerTarget.span(), step);
    int64_t high = floorDiv(delta + innerSource.span(), step);
    for (int64_t shift = low; shift <= high; ++shift) {
      // target index = source index + shift
      int64_t from = std::max<int64_t>(0, -shift);
      int64_t to = std::min(source.dims[0].count, target.dims[0].count - shift);
      if (from >= to)
        continue;
      Set s = innerSource, t = innerTarget;
      s.offset += from * step;
      s.other += from * source.dims[0].other;
      t.offset += (from + shift) * step;
      t.other += (from + shift) * target.dims[0].other;
      outer.push_back({to - from, source.dims[0].other, target.dims[0].other});
      run(std::move(s), std::move(t));
      outer.pop_back();
    }
  }

  /// The outermost step of `small` divides that of `large`: cut small's
  /// outermost dim into head, whole periods aligned with large's, and tail.
  void splitPeriods(const Set &large, Set small, bool largeIsSource) {
    int64_t step = large.dims[0].step;
    int64_t period = step / small.dims[0].step;
    int64_t head = growToPeriods(large, small, period);
    const SetDim top = small.dims[0];
    int64_t whole = (top.count - head) / period;
    int64_t tail = top.count - head - whole * period;
    if (whole < 2) // clipping leaves few periods of large for each piece
      return unroll(large, small, largeIsSource);
    if (head)
      recurse(large, narrowed(small, 0, head), largeIsSource);
    Set middle = narrowed(small, head, whole * period);
    middle.dims[0] = {whole, step, top.other * period};
    middle.dims.insert(middle.dims.begin() + 1, {period, top.step, top.other});
    recurse(large, std::move(middle), largeIsSource);
    if (tail)
      recurse(large, narrowed(small, head + whole * period, tail),
              largeIsSource);
  }

  /// Indices of small's outermost dim before the first period of large. Where
  /// large has no elements beyond small's ends, small is taken to go on there,
  /// which spares a head and a tail.
  static int64_t growToPeriods(const Set &large, Set &small, int64_t period) {
    SetDim &top = small.dims[0];
    int64_t inner = small.span() - (top.count - 1) * top.step;
    int64_t phase = (small.offset - large.offset) % (period * top.step);
    if (phase < 0)
      phase += period * top.step;
    int64_t head =
        phase < top.step ? 0 : ceilDiv(period * top.step - phase, top.step);
    head = std::min(head, top.count);
    if (head && small.offset - top.step + inner < large.offset) {
      int64_t more = period - head;
      small.offset -= more * top.step;
      small.other -= more * top.other;
      top.count += more;
      head = 0;
    }
    int64_t tail = (top.count - head) % period;
    int64_t end = small.offset + top.count * top.step;
    if (tail && large.offset + large.span() < end)
      top.count += period - tail;
    return head;
  }

  void emit(const Set &source, const Set &target) {
    if (source.offset != target.offset)
      return;
    Box box;
    box.sourceOffset = source.other;
    box.targetOffset = target.other;
    box.dims = outer;
    out.push_back(std::move(box));
  }

  std::vector<Box> &out;
  std::vector<BoxDim> outer; ///< dims that are already paired
  bool firstOnly;
};

Set setOf(const Box &box, bool sourceSide) {
  Set set{sourceSide ? box.sourceOffset : box.targetOffset,
          sourceSide ? box.targetOffset : box.sourceOffset,
          {}};
  for (const BoxDim &dim : box.dims)
    set.dims.push_back({dim.count, sourceSide ? dim.source : dim.target,
                        sourceSide ? dim.target : dim.source});
  std::ranges::sort(set.dims, std::greater<>(), &SetDim::step);
  return set;
}

/// Source offsets of a fill mean nothing: pair its elements with zeros.
Box constantLike(const Box &pattern, const Box &fill) {
  Box box = pattern;
  box.input = -1;
  box.fill = fill.fill;
  box.sourceOffset = 0;
  for (BoxDim &dim : box.dims)
    dim.source = 0;
  return box;
}

} // namespace

Result<std::vector<Box>> compose(const Box &outer, const Box &inner,
                                 int64_t rowLength) {
  std::vector<Box> result;
  Intersection intersection(result);
  intersection.run(setOf(inner, false), setOf(outer, true));
  if (intersection.tooMany())
    return fail("the rule's index map needs more than {} boxes; choose extents "
                "that divide each other",
                maxBoxes);
  for (Box &box : result) {
    box.input = inner.input;
    if (inner.input < 0)
      box = constantLike(box, inner);
    canonicalize(box, rowLength);
  }
  return result;
}

Result<BoxMap> compose(const BoxMap &outer, std::span<const BoxMap> inner) {
  BoxMap result;
  result.elements = outer.elements;
  for (const Box &box : outer.boxes) {
    if (box.input < 0) {
      result.boxes.push_back(box);
      continue;
    }
    for (const Box &other : inner[box.input].boxes) {
      Result<std::vector<Box>> boxes = compose(box, other);
      if (!boxes)
        return std::unexpected(boxes.error());
      result.boxes.insert(result.boxes.end(), boxes->begin(), boxes->end());
    }
    if (result.boxes.size() > maxBoxes)
      return fail("the rule's index map needs more than {} boxes; choose "
                  "extents that divide each other",
                  maxBoxes);
  }
  canonicalize(result);
  return result;
}

std::optional<std::string> checkTiling(const BoxMap &map) {
  std::vector<Set> sets;
  int64_t covered = 0;
  for (const Box &box : map.boxes) {
    Set set = setOf(box, false);
    int64_t inside = 0; // span of the dims inside the one looked at
    for (size_t dim = set.dims.size(); dim-- > 0;) {
      if (set.dims[dim].step <= inside)
        return fmt::format("the box at element {} writes an element twice",
                           box.targetOffset);
      inside += (set.dims[dim].count - 1) * set.dims[dim].step;
    }
    if (set.offset < 0 || set.offset + inside >= map.elements)
      return fmt::format("the box at element {} ends at element {} of {}",
                         set.offset, set.offset + inside, map.elements);
    covered += elementCount(box);
    sets.push_back(std::move(set));
  }
  if (covered < map.elements)
    return fmt::format("{} of {} elements are written, element {} is not",
                       covered, map.elements, firstUncovered(map).value_or(0));
  // Enough elements are written; they are all different unless two boxes meet.
  std::ranges::sort(sets, {}, &Set::offset);
  std::vector<const Set *> open;
  for (const Set &set : sets) {
    std::erase_if(open, [&](const Set *other) {
      return other->offset + other->span() < set.offset;
    });
    for (const Set *other : open) {
      std::vector<Box> common;
      Intersection(common, true).run(*other, set);
      if (!common.empty())
        return fmt::format("two boxes write the same element (boxes at {} and "
                           "{})",
                           other->offset, set.offset);
    }
    open.push_back(&set);
  }
  return std::nullopt;
}

} // namespace mbc::compiler
