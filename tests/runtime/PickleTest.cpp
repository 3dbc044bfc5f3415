#include "runtime/PickleTree.h"

#include "runtime/PickleTensor.h"
#include "runtime/PickleWriter.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mbc {
namespace {

using namespace std::string_literals;

std::string failure(std::string pickle) {
  auto tree = PickleTree::parse(std::move(pickle), "file.pt");
  return tree ? "no error" : tree.error().message;
}

std::string json(std::string pickle) {
  auto tree = PickleTree::parse(std::move(pickle), "file.pt");
  if (!tree)
    return tree.error().message;
  auto value = tree->json(tree->root());
  return value ? value->dump() : value.error().message;
}

// pickle.dumps({"a": [1, -2, 3.5, None, True], "b": (1, 2)}, 4), Python 3.11.
TEST(PickleTree, ProtocolFour) {
  std::string pickle = "\x80\x04\x95\x28\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c"
                       "\x01"
                       "a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00"
                       "\x00\x00\x00N\x88"
                       "e\x8c\x01"
                       "b\x94K\x01K\x02\x86\x94u."s;
  EXPECT_EQ(json(pickle), R"({"a":[1,-2,3.5,null,true],"b":[1,2]})");
}

// pickle.dumps([10**17+1, -1, 2**70], 2).
TEST(PickleTree, LongIntegers) {
  std::string pickle =
      "\x80\x02]q\x00(\x8a\x08\x01\x00\x8a\x5d\x78\x45\x63\x01J\xff\xff\xff"
      "\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40"
      "e."s;
  EXPECT_EQ(json(pickle), "[100000000000000001,-1,1.1805916207174113e+21]");
}

TEST(PickleTree, CallsOutsideTheListAreRefused) {
  EXPECT_EQ(failure("\x80\x02"
                    "cposix\nsystem\nX\x04\x00\x00\x00true\x85R."s),
            "file.pt: byte 26 of the pickle: would call posix.system, which a "
            "checkpoint has no reason to; it was not executed");
  EXPECT_EQ(failure("\x80\x02"
                    "cbuiltins\neval\nX\x01\x00\x00\x00"
                    "1\x85R."s),
            "file.pt: byte 24 of the pickle: would call builtins.eval, which a "
            "checkpoint has no reason to; it was not executed");
  // A pickle inside a pickle.
  EXPECT_NE(
      failure("\x80\x02"
              "ctorch.storage\n_load_from_bytes\nX\x00\x00\x00\x00\x85R."s)
          .find("would call torch.storage._load_from_bytes"),
      std::string::npos);
  // The old spelling of a call, and the name taken from the stack.
  EXPECT_NE(failure("(X\x04\x00\x00\x00trueios\nsystem\n."s)
                .find("would call os.system"),
            std::string::npos);
  EXPECT_NE(failure("\x80\x04\x8c\x05posix\x8c\x06system\x93)R."s)
                .find("would call posix.system"),
            std::string::npos);
}

TEST(PickleTree, UnknownClassesAreInert) {
  std::string pickle = "\x80\x02"
                       "csome.module\nThing\n)\x81}X\x01\x00\x00\x00kK\x07sb."s;
  EXPECT_EQ(json(pickle), R"({"k":7})");
}

TEST(PickleTree, MemoSeesLaterChanges) {
  // A list that is remembered, put twice into a tuple, and then filled.
  EXPECT_EQ(json("\x80\x02]q\x00h\x00K\x05"
                 "a\x86."s),
            "[[5],[5]]");
}

TEST(PickleTree, SelfReferenceEndsAtABound) {
  EXPECT_NE(json("\x80\x02]q\x00h\x00"
                 "a."s)
                .find("nested deeper than 64 levels"),
            std::string::npos);
}

TEST(PickleTree, EveryTruncationIsAnError) {
  PickleWriter writer;
  writer.nameSpace(Json{{"a", {1, 2, "x"}}, {"b", 1.5}, {"c", nullptr}});
  std::string pickle = std::move(writer).finish();
  EXPECT_EQ(failure(pickle), "no error");
  for (size_t size = 0; size != pickle.size(); ++size)
    EXPECT_NE(failure(pickle.substr(0, size)), "no error") << size;
}

TEST(PickleTree, LyingLengthsAreErrors) {
  EXPECT_EQ(failure("\x80\x02X\xff\xff\xff\x7f."s),
            "file.pt: byte 2 of the pickle: a text of 2147483647 bytes, 1 are "
            "left");
  EXPECT_EQ(failure("\x80\x02Nr\xff\xff\xff\xff."s),
            "file.pt: byte 3 of the pickle: memo number 4294967295 in a pickle "
            "of 9 bytes");
}

TEST(PickleTensor, StorageKeysAreNumbers) {
  PickleWriter writer;
  writer.tensor("../../x", DType::F32, Shape{2}.dims());
  auto tree = PickleTree::parse(std::move(writer).finish(), "f");
  ASSERT_TRUE(tree);
  auto tensor = readTensor(*tree, tree->root(), "f", "w");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().message,
            "f: tensor w: bad storage key \"../../x\", it must be a number");
}

/// A float tensor of shape (3, 2) in a storage of 6, with these strides.
std::string viewPickle(char rows, char columns) {
  std::string pickle =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
      "ctorch\nFloatStorage\nX\x01\x00\x00\x00"
      "0X\x03\x00\x00\x00"
      "cpuK\x06tQK\x00K\x03K\x02\x86K\x01K\x03\x86\x89"
      "ccollections\nOrderedDict\n)RtR."s;
  const size_t strides = pickle.find("\x86K\x01K\x03\x86"s);
  pickle[strides + 2] = rows;
  pickle[strides + 4] = columns;
  return pickle;
}

TEST(PickleTensor, ATransposedViewKeepsTheOrderOfItsAxes) {
  auto tree = PickleTree::parse(viewPickle(1, 3), "f");
  ASSERT_TRUE(tree) << tree.error().message;
  auto tensor = readTensor(*tree, tree->root(), "f", "w");
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->shape, (Shape{3, 2}));
  EXPECT_EQ(tensor->order, (Shape{1, 0}));
  EXPECT_EQ(tensor->storageElements, 6);
}

TEST(PickleTensor, AxesInTheirOwnOrderNeedNone) {
  auto tree = PickleTree::parse(viewPickle(2, 1), "f");
  ASSERT_TRUE(tree) << tree.error().message;
  auto tensor = readTensor(*tree, tree->root(), "f", "w");
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_TRUE(tensor->order.empty());
}

TEST(PickleTensor, ViewsWithGapsAreRefused) {
  auto tree = PickleTree::parse(viewPickle(1, 4), "f");
  ASSERT_TRUE(tree) << tree.error().message;
  auto tensor = readTensor(*tree, tree->root(), "f", "w");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().message,
            "f: tensor w: is a view with strides [1, 4] of shape [3, 2]; save "
            "it contiguous");
}

} // namespace
} // namespace mbc
