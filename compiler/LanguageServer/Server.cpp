#include "compiler/LanguageServer/Server.h"

#include "compiler/LanguageServer/Channel.h"
#include "compiler/LanguageServer/Completion.h"
#include "compiler/LanguageServer/Document.h"
#include "compiler/LanguageServer/Hover.h"
#include "compiler/LanguageServer/Position.h"
#include "compiler/LanguageServer/Subject.h"
#include "dsl/Format.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::compiler {
namespace {

/// Error codes of JSON-RPC and of the protocol.
enum ErrorCode {
  ParseError = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
  InternalError = -32603,
  NotInitialized = -32002,
};

struct RequestError {
  ErrorCode code;
  std::string message;
};

class Server {
public:
  Server(const std::string &specDirectory, mbc_source in, mbc_sink out)
      : channel(in, out), searchDirs{specDirectory} {}

  int run() {
    while (state != State::Exited) {
      Channel::Incoming incoming = channel.read();
      if (incoming.kind == Channel::Incoming::Kind::End)
        break;
      if (incoming.kind == Channel::Incoming::Kind::Malformed)
        fail(nullptr, {ParseError, incoming.text});
      else
        receive(incoming.text);
    }
    return askedToShutDown ? 0 : 1;
  }

private:
  enum class State : uint8_t { Started, Ready, ShutDown, Exited };
  using Request = Json (Server::*)(const Json &params);
  using Notification = void (Server::*)(const Json &params);

  void receive(const std::string &text) {
    Json message = Json::parse(text, nullptr, false);
    if (message.is_discarded())
      return fail(nullptr, {ParseError, "the message is not JSON"});
    bool object = message.is_object();
    Json id = object && message.contains("id") ? message["id"] : Json();
    if (!id.is_string() && !id.is_number_integer())
      id = nullptr;
    bool response = object && !message.contains("method") &&
                    (message.contains("result") || message.contains("error"));
    if (response)
      return; // to a request that was never sent
    if (!object || !message.contains("method") ||
        !message["method"].is_string())
      return fail(id, {InvalidRequest, "a message is an object with a method"});
    std::string method = message["method"].get<std::string>();
    const Json params = message.value("params", Json::object());
    if (message.contains("id"))
      answer(id, method, params);
    else
      take(method, params);
  }

  void answer(const Json &id, const std::string &method, const Json &params) {
    static const std::map<std::string, Request> requests{
        {"initialize", &Server::initialize},
        {"shutdown", &Server::shutDown},
        {"textDocument/definition", &Server::definition},
        {"textDocument/hover", &Server::hoverText},
        {"textDocument/completion", &Server::completions},
        {"textDocument/formatting", &Server::formatting}};
    try {
      if (state == State::ShutDown)
        throw RequestError{InvalidRequest, "the server is shutting down"};
      if (state == State::Started && method != "initialize")
        throw RequestError{NotInitialized, "initialize comes first"};
      auto request = requests.find(method);
      if (request == requests.end())
        throw RequestError{MethodNotFound,
                           fmt::format("there is no method '{}'", method)};
      Json result = (this->*request->second)(params);
      channel.write({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
    } catch (const RequestError &error) {
      fail(id, error);
    } catch (const Json::exception &error) {
      fail(id, {InvalidParams, fmt::format("{}: {}", method, error.what())});
    } catch (const std::exception &error) {
      fail(id, {InternalError, fmt::format("{}: {}", method, error.what())});
    }
  }

  /// A notification has no answer, whatever is wrong with it.
  void take(const std::string &method, const Json &params) {
    static const std::map<std::string, Notification> notifications{
        {"exit", &Server::exit},
        {"textDocument/didOpen", &Server::didOpen},
        {"textDocument/didChange", &Server::didChange},
        {"textDocument/didClose", &Server::didClose},
        {"workspace/didChangeConfiguration", &Server::didConfigure}};
    auto notification = notifications.find(method);
    if (notification == notifications.end() ||
        (state != State::Ready && method != "exit"))
      return;
    try {
      (this->*notification->second)(params);
    } catch (const std::exception &) {
    }
  }

  void fail(const Json &id, const RequestError &error) {
    channel.write({{"jsonrpc", "2.0"},
                   {"id", id},
                   {"error",
                    {{"code", static_cast<int>(error.code)},
                     {"message", error.message}}}});
  }
  void notify(const char *method, const Json &params) {
    channel.write({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
  }

  // The server's life.
  Json initialize(const Json &params) {
    if (state != State::Started)
      throw RequestError{InvalidRequest, "the server is initialized already"};
    if (params.contains("initializationOptions"))
      configure(params["initializationOptions"]);
    state = State::Ready;
    constexpr int fullText = 1;
    return {{"capabilities",
             {{"positionEncoding", "utf-16"},
              {"textDocumentSync", {{"openClose", true}, {"change", fullText}}},
              {"definitionProvider", true},
              {"hoverProvider", true},
              {"completionProvider", {{"triggerCharacters", {"."}}}},
              {"documentFormattingProvider", true}}},
            {"serverInfo", {{"name", "mbc"}}}};
  }
  Json shutDown(const Json &) {
    state = State::ShutDown;
    askedToShutDown = true;
    return nullptr;
  }
  void exit(const Json &) { state = State::Exited; }

  /// "config": a checkpoint's directory or a config.json.
  void configure(const Json &options) {
    if (options.is_object() && options.contains("config"))
      configPath = options["config"].get<std::string>();
  }
  void didConfigure(const Json &params) {
    configure(params.at("settings").at("mbc"));
  }

  // Documents.
  void didOpen(const Json &params) {
    const Json &item = params.at("textDocument");
    std::string uri = item.at("uri").get<std::string>();
    std::string text = item.at("text").get<std::string>();
    documents.erase(uri);
    update(documents.try_emplace(uri, uri, searchDirs).first->second,
           std::move(text));
  }
  void didChange(const Json &params) {
    const Json &changes = params.at("contentChanges");
    if (!changes.empty())
      update(document(params), changes.back().at("text").get<std::string>());
  }
  void didClose(const Json &params) {
    std::string uri = document(params).uri();
    documents.erase(uri);
    notify("textDocument/publishDiagnostics",
           {{"uri", uri}, {"diagnostics", Json::array()}});
  }
  void update(Document &opened, std::string text) {
    opened.update(std::move(text));
    notify("textDocument/publishDiagnostics", opened.findings());
  }

  Document &document(const Json &params) {
    std::string uri = params.at("textDocument").at("uri").get<std::string>();
    auto opened = documents.find(uri);
    if (opened == documents.end())
      throw RequestError{InvalidParams, fmt::format("{} is not open", uri)};
    return opened->second;
  }
  static Place place(const Document &opened, const Json &params) {
    const Json &position = params.at("position");
    return toPlace(opened.text(), {position.at("line").get<uint32_t>(),
                                   position.at("character").get<uint32_t>()});
  }

  /// What a document is looked at with; null if nothing was named. Read again
  /// only when another path is named.
  const Subject *subject(const Document &opened) {
    std::string path = opened.configPath();
    if (path.empty())
      path = configPath;
    if (path.empty())
      return nullptr;
    if (path != subjectPath) {
      Result<Subject> named = openSubject(path);
      if (!named)
        throw RequestError{InvalidParams, named.error().message};
      lastSubject = std::move(*named);
      subjectPath = path;
    }
    return &*lastSubject;
  }

  // Requests.
  Json definition(const Json &params) {
    const Document &opened = document(params);
    Place at = place(opened, params);
    const dsl::SymbolUse *use = opened.symbolAt(at.line, at.column);
    if (!use)
      return nullptr;
    const dsl::SourceRange &where = use->declaration;
    bool here = opened.isHere(where);
    return {{"uri", here ? params["textDocument"]["uri"]
                         : Json(uriOf(where.file->path))},
            {"range", toJson(here ? opened.text() : where.file->text, where)}};
  }
  Json hoverText(const Json &params) {
    const Document &opened = document(params);
    std::optional<std::string> text =
        hover(opened, place(opened, params), subject(opened));
    if (!text)
      return nullptr;
    return {{"contents", {{"kind", "markdown"}, {"value", *text}}}};
  }
  Json completions(const Json &params) {
    const Document &opened = document(params);
    return completion(opened, place(opened, params), subject(opened));
  }
  Json formatting(const Json &params) {
    const Document &opened = document(params);
    dsl::Diagnostics published; // already, as the text came
    std::optional<std::string> text =
        dsl::format(opened.text(), opened.path(), published);
    if (!text)
      return nullptr;
    return Json::array(
        {{{"range", wholeRange(opened.text())}, {"newText", *text}}});
  }

  Channel channel;
  std::vector<std::string> searchDirs;
  State state = State::Started;
  bool askedToShutDown = false;
  std::map<std::string, Document> documents; ///< by address
  std::string configPath;
  std::string subjectPath;
  std::optional<Subject> lastSubject;
};

} // namespace

int serveLanguage(const std::string &specDirectory, mbc_source in,
                  mbc_sink out) {
  return Server(specDirectory, in, out).run();
}

} // namespace mbc::compiler
