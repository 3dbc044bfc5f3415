#include "tests/end-to-end/Dialogue.h"
#include "tests/end-to-end/Fixture.h"
#include "tests/end-to-end/Scratch.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

namespace mbc::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int parseError = -32700, invalidRequest = -32600,
              methodNotFound = -32601, invalidParams = -32602,
              notInitialized = -32002;

json range(int line, int start, int end) {
  return {{"start", {{"line", line}, {"character", start}}},
          {"end", {{"line", line}, {"character", end}}}};
}

/// A server that an editor has greeted, and a folder for its files.
class LanguageServer : public testing::Test {
protected:
  void greet(const json &options = json::object()) {
    json result =
        server_.ask("initialize", {{"initializationOptions", options}});
    EXPECT_EQ(result["capabilities"]["textDocumentSync"]["change"], 1);
    server_.notify("initialized", json::object());
  }

  /// Opens a text and gives what the server finds in it.
  json open(const std::string &text, const std::string &name = "t.mbspec") {
    uri_ = "file://" + (scratch_ / name);
    server_.notify("textDocument/didOpen", {{"textDocument",
                                             {{"uri", uri_},
                                              {"languageId", "mbspec"},
                                              {"version", 1},
                                              {"text", text}}}});
    return findings();
  }
  json change(const std::string &text) {
    server_.notify("textDocument/didChange",
                   {{"textDocument", {{"uri", uri_}, {"version", 2}}},
                    {"contentChanges", json::array({json{{"text", text}}})}});
    return findings();
  }
  json findings() {
    json message = server_.receive();
    EXPECT_EQ(message.value("method", ""), "textDocument/publishDiagnostics");
    EXPECT_EQ(message["params"]["uri"], uri_);
    return message["params"]["diagnostics"];
  }

  json at(const std::string &method, int line, int character) {
    return server_.ask(
        "textDocument/" + method,
        {{"textDocument", {{"uri", uri_}}},
         {"position", {{"line", line}, {"character", character}}}});
  }
  std::string hover(int line, int character) {
    json result = at("hover", line, character);
    return result.is_object() && result.contains("contents")
               ? result["contents"]["value"].get<std::string>()
               : result.dump();
  }
  std::set<std::string> completion(int line, int character) {
    std::set<std::string> labels;
    const json result = at("completion", line, character);
    for (const json &item : result.at("items"))
      labels.insert(item["label"].get<std::string>());
    return labels;
  }

  Scratch scratch_;
  Dialogue server_;
  std::string uri_;
};

TEST_F(LanguageServer, LivesFromInitializeToExit) {
  EXPECT_EQ(at("hover", 0, 0)["code"], notInitialized);
  greet();
  EXPECT_EQ(server_.ask("initialize", json::object())["code"], invalidRequest);
  EXPECT_EQ(server_.ask("shutdown", nullptr), nullptr);
  EXPECT_EQ(server_.ask("shutdown", nullptr)["code"], invalidRequest);
  server_.notify("exit", json::object());
  EXPECT_EQ(server_.receive(), nullptr);
  EXPECT_EQ(server_.end(), 0);
}

TEST_F(LanguageServer, AnEditorThatLeavesWithoutAWordEndsIt) {
  greet();
  EXPECT_EQ(server_.end(), 1);
}

TEST_F(LanguageServer, WhatIsNoMessageIsAnsweredWithAnError) {
  auto error = [&](const std::string &bytes) {
    server_.sendBytes(bytes);
    json answer = server_.receive();
    EXPECT_EQ(answer.value("id", json("none")), nullptr) << answer;
    return answer["error"]["code"];
  };
  EXPECT_EQ(error("Content-Length: 5\r\n\r\n{\"a\":"), parseError);
  EXPECT_EQ(error("Content-Length: 2\r\n\r\n\xff\xfe"), parseError);
  EXPECT_EQ(error("Content-Type: x\r\n\r\n"), parseError);
  EXPECT_EQ(error("Content-Length: many\r\n\r\n"), parseError);
  EXPECT_EQ(error("Content-Length: -1\r\n\r\n"), parseError);
  EXPECT_EQ(error("Content-Length: 99999999999999999999999\r\n\r\n"),
            parseError);
  EXPECT_EQ(error(std::string(100'000, 'x') + "\n\r\n"), parseError);
  EXPECT_EQ(error("Content-Length: 2\r\n\r\n[]"), invalidRequest);
  EXPECT_EQ(error("Content-Length: 1\r\n\r\n1"), invalidRequest);
  EXPECT_EQ(error("Content-Length: 12\r\n\r\n{\"method\":1}"), invalidRequest);
  const std::string deep(200'000, '[');
  EXPECT_EQ(error("Content-Length: 200000\r\n\r\n" + deep), parseError);
  // Names of headers have no case, other headers do not matter, and the server
  // is still well.
  server_.sendBytes("content-length: 47\r\nContent-Type: y\r\n\r\n"
                    R"({"jsonrpc":"2.0","id":"a","method":"shutdown"} )");
  EXPECT_EQ(server_.receive()["error"]["code"], notInitialized);
}

// Nothing of it is kept, and the messages behind it are read.
TEST_F(LanguageServer, AMessageThatIsTooLargeIsPassedOver) {
  constexpr size_t bytes = (64 << 20) + 1;
  server_.sendBytes("Content-Length: " + std::to_string(bytes) + "\r\n\r\n");
  json answer = server_.receive();
  EXPECT_EQ(answer["error"]["code"], parseError);
  EXPECT_TRUE(answer["error"]["message"].get<std::string>().contains(
      std::to_string(bytes)));
  server_.sendBytes(std::string(bytes, ' '));
  greet();
}

TEST_F(LanguageServer, AnEndInsideOfAMessageIsAnEnd) {
  server_.sendBytes("Content-Length: 10000000000\r\n\r\n{");
  EXPECT_EQ(server_.receive()["error"]["code"], parseError);
  EXPECT_EQ(server_.end(), 1);
}

TEST_F(LanguageServer, RequestsThatItCannotAnswerAreErrors) {
  greet();
  EXPECT_EQ(server_.ask("textDocument/rename", json::object())["code"],
            methodNotFound);
  EXPECT_EQ(server_.ask("textDocument/hover", json::object())["code"],
            invalidParams);
  EXPECT_EQ(server_.ask("textDocument/hover", json::array())["code"],
            invalidParams);
  open("mbspec 1\n");
  EXPECT_EQ(at("hover", 1000, 1000), nullptr);
  EXPECT_EQ(
      server_.ask("textDocument/hover", {{"textDocument", {{"uri", uri_}}},
                                         {"position", "here"}})["code"],
      invalidParams);
  uri_ = "file:///not/open";
  EXPECT_EQ(at("hover", 0, 0)["code"], invalidParams);
  // Notifications have no answer: the next message is that of the request.
  server_.notify("textDocument/didChange", json::object());
  server_.notify("$/unknown", json::object());
  EXPECT_EQ(server_.ask("shutdown", json::object()), nullptr);
}

const std::string tiny =
    "mbspec 1\n"
    "model tiny { megatron \"GPTModel\" layers 1 vocab 8 multiple 1 }\n";

// The columns of both findings are counted by hand, in UTF-16: the character
// before the second is one of two units.
TEST_F(LanguageServer, FindingsComeWhileTyping) {
  greet();
  EXPECT_EQ(open(tiny), json::array());
  json found = change(tiny + "let x = ]\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["range"], range(2, 8, 9));
  EXPECT_EQ(found[0]["severity"], 1);
  EXPECT_EQ(found[0]["message"], "']' cannot stand here");

  found = change(tiny + "let x = \"\xf0\x9f\x98\x80\" + unknown\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["range"], range(2, 15, 22));
  EXPECT_EQ(change(tiny), json::array());

  server_.notify("textDocument/didClose", {{"textDocument", {{"uri", uri_}}}});
  EXPECT_EQ(findings(), json::array());
}

TEST_F(LanguageServer, APartOfOtherSpecsMayUseTheirNames) {
  greet();
  EXPECT_EQ(open("mbspec 1\nlet x = theirs\n"), json::array());
}

TEST_F(LanguageServer, DefinitionsAreFoundInAllFiles) {
  fs::create_directories(scratch_ / "lib");
  writeText(scratch_ / "lib/a b.mbspec",
            "mbspec 1\ndef twice(n) = n * 2\nblock inner(w) { a.{w} <- b }\n");
  greet();
  EXPECT_EQ(open(tiny + "use \"lib/a b.mbspec\"\n"
                        "let L = twice(3)\n"
                        "block outer(p) {\n"
                        "  for i in 0..L { x.{i+p} <- y }\n"
                        "  inner(p)\n"
                        "}\n"
                        "outer(L)\n"),
            json::array());
  std::string lib = "file://" + (scratch_ / "lib/a%20b.mbspec");
  auto definition = [&](int line, int character) {
    json result = at("definition", line, character);
    return result.is_null() ? result : json{result["uri"], result["range"]};
  };
  EXPECT_EQ(definition(2, 8), (json{lib, range(0, 0, 1)}));     // the file
  EXPECT_EQ(definition(3, 9), (json{lib, range(1, 4, 9)}));     // twice
  EXPECT_EQ(definition(5, 14), (json{uri_, range(3, 4, 5)}));   // L
  EXPECT_EQ(definition(5, 21), (json{uri_, range(5, 6, 7)}));   // i
  EXPECT_EQ(definition(5, 23), (json{uri_, range(4, 12, 13)})); // p
  EXPECT_EQ(definition(6, 3), (json{lib, range(2, 6, 11)}));    // inner
  EXPECT_EQ(definition(8, 6), (json{uri_, range(3, 4, 5)}));    // L
  EXPECT_EQ(definition(0, 0), nullptr);
}

/// A spec for the fixture, with a rule whose shapes are known.
std::string spec(const std::string &lines) {
  return tiny + "let h = hf.hidden_size\n" + lines;
}

TEST_F(LanguageServer, ValuesAndShapesOfACheckpointAreShown) {
  HfModel model = fixture("qwen3");
  model.write(scratch_ / "hf");
  greet({{"config", scratch_ / "hf"}});
  open(spec("for i in 0..2 {\n"
            "  decoder.{i}.qk <- "
            "concat(model.layers.{i}.self_attn.q_proj.weight:112,\n"
            "      model.layers.{i}.self_attn.k_proj.weight:56)\n"
            "}\n"));
  // hidden_size and the shapes are those of the fixture's manifest.
  EXPECT_EQ(hover(2, 4), "```mbspec\nlet h = hf.hidden_size\n```\n"
                         "```mbspec\n= 88\n```\n");
  auto instance = [](const std::string &i) {
    return "```mbspec\n"
           "  decoder." +
           i +
           ".qk [168, 88]\n"
           "<-\n"
           "  model.layers." +
           i +
           ".self_attn.q_proj.weight [112, 88] BF16\n"
           "  model.layers." +
           i +
           ".self_attn.k_proj.weight [56, 88] BF16\n"
           "```\n";
  };
  EXPECT_EQ(hover(4, 18), instance("0") + instance("1"));
}

TEST_F(LanguageServer, AConfigMayBeNamedInTheSpec) {
  writeText(scratch_ / "c.json", R"({"hidden_size": 48, "text": {"deep": 1}})");
  greet();
  open(spec("# mbc.config: c.json\nlet half = h / 2\nlet y = hf.text.deep\n"));
  EXPECT_EQ(hover(4, 5), "```mbspec\nlet half = h / 2\n```\n"
                         "```mbspec\n= 24\n```\n");
  EXPECT_EQ(completion(5, 11), (std::set<std::string>{"hidden_size", "text"}));
  EXPECT_EQ(completion(5, 18), std::set<std::string>{"deep"});
  open(spec("# mbc.config: absent.json\n"));
  EXPECT_EQ(at("hover", 2, 4)["code"], invalidParams);
}

TEST_F(LanguageServer, NamesInScopeAndOfTheCheckpointAreOffered) {
  fixture("qwen3").write(scratch_ / "hf");
  greet({{"config", scratch_ / "hf"}});
  open(spec("block one(para) {\n"
            "  a <- b\n"
            "}\n"
            "block two(parb) {\n"
            "  c <- self_attn.q_p\n"
            "}\n"));
  std::set<std::string> names = completion(4, 2);
  for (const char *name : {"h", "hf", "one", "two", "para", "concat", "len",
                           "model.embed_tokens.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("parb"));
  EXPECT_EQ(completion(7, 20),
            std::set<std::string>{"self_attn.q_proj.weight"});
}

TEST_F(LanguageServer, TextsAreFormatted) {
  greet();
  open("mbspec 1\nlet  x=1");
  json edits =
      server_.ask("textDocument/formatting", {{"textDocument", {{"uri", uri_}}},
                                              {"options", json::object()}});
  ASSERT_EQ(edits.size(), 1U);
  EXPECT_EQ(edits[0]["newText"], "mbspec 1\nlet x = 1\n");
  EXPECT_EQ(edits[0]["range"]["start"], range(0, 0, 0)["start"]);
  EXPECT_EQ(edits[0]["range"]["end"], range(1, 0, 8)["end"]);
  change("mbspec 1\nlet  x=]");
  EXPECT_EQ(server_.ask("textDocument/formatting",
                        {{"textDocument", {{"uri", uri_}}}}),
            nullptr);
}

} // namespace
} // namespace mbc::test
