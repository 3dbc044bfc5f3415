#include "runtime/Json.h"
#include "runtime/PickleTree.h"
#include "runtime/TorchDistIndex.h"
#include "tests/fuzz/Input.h"

#include <nlohmann/json.hpp>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mbc;
  auto tree = PickleTree::parse(std::string(fuzz::textOf(data, size)), "input");
  if (!tree)
    return 0;
  (void)tree->json(tree->root());
  (void)readTorchDistIndex(*tree, "input");
  return 0;
}
