#include "tests/end-to-end/Families.h"
#include "tests/end-to-end/Listing.h"
#include "tests/end-to-end/Process.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>

#include <gtest/gtest.h>

// A family with several Megatron layouts: which one an import makes is asked
// for, which one an export reads is seen from the record or, without, from the
// names.

namespace mbc::test {
namespace {

namespace fs = std::filesystem;

struct Port {
  const char *name, *spec, *forms;
  Glm5NextPort port;
  bool fusedNorms;
  /// Whether it has MTP layers and the vision tower.
  bool isWhole;
};

constexpr Port ports[] = {
    {"Miles", "glm5_next_gpt", "miles", Glm5NextPort::Miles, true, false},
    {"Slime", "glm5_next_gpt", "miles,plain_norms", Glm5NextPort::Miles, false,
     false},
    {"MilesWhole", "glm5_next_gpt", "miles_whole", Glm5NextPort::MilesWhole,
     true, false},
    {"SkyRl", "glm5_next_gpt", "skyrl", Glm5NextPort::Skyrl, false, false},
    {"Bridge", "glm5_next_bridge", "plain_norms", Glm5NextPort::Bridge, false,
     true},
    {"BridgeFused", "glm5_next_bridge", "", Glm5NextPort::Bridge, true, true},
};

/// Parameters of MTP hyper-connections, which Hugging Face does not have.
std::set<std::string> initOnly(const Port &port) {
  std::set<std::string> names;
  if (port.isWhole)
    for (const char *part : {"self_attention", "mlp"})
      for (const char *leaf : {"mapping_proj.weight", "bias", "alpha_pre",
                               "alpha_post", "alpha_res"})
        names.insert(
            std::string("language_model.mtp.layers.0.mtp_model_layer.") + part +
            "_hyper_connection." + leaf);
  return names;
}

std::ostream &operator<<(std::ostream &out, const Port &port) {
  return out << port.name;
}

class Glm5NextLayouts : public testing::TestWithParam<Port> {
protected:
  Glm5NextLayouts()
      : answers_(fixture("glm5_next"),
                 glm5NextGptReference(fixture("glm5_next"), GetParam().port,
                                      GetParam().fusedNorms),
                 initOnly(GetParam())) {
    answers_.model.write(scratch_ / "hf");
    expected_ = exportOf(answers_.model);
    if (!GetParam().isWhole)
      std::erase_if(expected_, [](const auto &entry) {
        return entry.first.starts_with("model.visual.") ||
               entry.first.starts_with("model.language_model.layers.5.");
      });
  }

  void import(const Layout &layout, const std::string &format) {
    fs::remove_all(scratch_ / "mg");
    std::vector<std::string> call{"convert",
                                  scratch_ / "hf",
                                  scratch_ / "mg",
                                  "--format",
                                  format,
                                  "--spec",
                                  GetParam().spec,
                                  "--make-vocab-size-divisible-by",
                                  "128"};
    for (const std::string &word : layout.options())
      call.push_back(word);
    if (*GetParam().forms != 0)
      call.insert(call.end(), {"--form", GetParam().forms});
    answers_.borders = {0, 5};
    if (layout.pp == 2) {
      call.insert(call.end(),
                  {"--first-stage-layers", "2", "--last-stage-layers", "3"});
      answers_.borders = {0, 2, 5};
    }
    const Outcome done = mbc(call);
    ASSERT_EQ(done.status, 0) << spell(call) << "\n" << done.err;
  }

  void expectBack(const std::vector<std::string> &options = {}) {
    fs::remove_all(scratch_ / "back");
    std::vector<std::string> call{"convert", scratch_ / "mg",
                                  scratch_ / "back"};
    call.insert(call.end(), options.begin(), options.end());
    const Outcome done = mbc(call);
    ASSERT_EQ(done.status, 0) << spell(call) << "\n" << done.err;
    EXPECT_EQ(difference(expected_, readSafetensors(scratch_ / "back")), "");
  }

  void forgetRecord() {
    for (const auto &entry : fs::recursive_directory_iterator(scratch_ / "mg"))
      if (entry.path().filename() == "record.json") {
        fs::remove(entry.path());
        return;
      }
    FAIL() << "no record";
  }

  Scratch scratch_;
  Answers answers_;
  Tensors expected_;
};

TEST_P(Glm5NextLayouts, WholeTensorsOfTorchDist) {
  for (const Layout &layout : {Layout{1, 1, 1, 1}, Layout{2, 2, 2, 2}}) {
    import(layout, "torch_dist");
    EXPECT_EQ(answers_.compareWhole(list(scratch_ / "mg"), 128 * layout.tp),
              "");
    expectBack();
  }
}

TEST_P(Glm5NextLayouts, EveryRankOfPerRankFiles) {
  for (const Layout &layout : {Layout{2, 2, 2, 2}, Layout{4, 1, 2, 2}}) {
    import(layout, "torch");
    EXPECT_EQ(answers_.compareRanks(list(scratch_ / "mg"), layout,
                                    128 * layout.tp, false, true),
              "");
    expectBack();
  }
}

// As other software writes it.
TEST_P(Glm5NextLayouts, IsKnownFromTheNamesWithoutARecord) {
  import({2, 1, 1, 2}, "torch_dist");
  forgetRecord();
  expectBack({"--hf-config", scratch_ / "hf"});
}

INSTANTIATE_TEST_SUITE_P(Ports, Glm5NextLayouts, testing::ValuesIn(ports),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST(Glm5NextForms, AFormThatIsNotTakenIsRefused) {
  Scratch scratch;
  fixture("glm5_next").write(scratch / "hf");
  const Outcome refused = mbc({"check", scratch / "hf", "--form", "skyrl"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("--form skyrl: no `either` of glm5_next takes"),
            std::string::npos)
      << refused.err;
}

} // namespace
} // namespace mbc::test
