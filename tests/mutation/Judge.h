#pragma once

#include "tests/mutation/Conversion.h"

#include <optional>

namespace mbc::test {

/// What becomes of a mutant.
enum class Verdict : uint8_t {
  Equivalent, ///< every byte and name of both directions stays the same
  Error,      ///< refused from headers and config.json alone
  Warning,    ///< a remark of the check that the shipped spec does not get
  Values,     ///< the check says nothing; a Megatron tensor differs
  Silent,     ///< the tensors are the same, something else differs
};

struct Judgement {
  Verdict verdict = Verdict::Equivalent;
  std::string what; ///< Values, Silent: the first difference
};

/// A fixture at one layout, with the way back, under the shipped spec.
struct Scenario {
  Conversion there, back;
  std::string planThere, planBack;
  Contents megatron, hf;
  std::set<std::string> remarks, remarksBack;
};

/// A fixture at the layouts that it allows.
class Fixture {
public:
  /// `folder` receives the fixture and its conversions; fails if the shipped
  /// spec does not hold.
  static Result<Fixture> make(const std::string &data,
                              const std::string &folder,
                              const std::string &spec, bool hasExperts);

  /// `scratch` may hold one mutant's files; one thread each.
  Judgement judge(const std::string &spec, const std::string &scratch) const;

private:
  std::optional<Judgement> fromHeaders(const std::string &spec) const;
  Judgement fromValues(const Scenario &scenario, const std::string &spec,
                       const std::string &scratch) const;
  std::vector<Scenario> scenarios;
};

/// The worst of several fixtures: what one of them lets through counts.
Judgement worst(const Judgement &a, const Judgement &b);

} // namespace mbc::test
