#include "src/tasks/language/expression.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace maniple {

void refuse_expression(const ExpressionSource& source, int column, const std::string& found,
                       const std::string& allowed) {
  const int length = static_cast<int>(source.text.size());
  if (column > length) column = length;
  // An expression may span several lines of a deck: show the one that the column is in.
  std::size_t begin =
      column > 0 ? source.text.rfind('\n', static_cast<std::size_t>(column) - 1) : std::string::npos;
  begin = begin == std::string::npos ? 0 : begin + 1;
  const std::size_t end = source.text.find('\n', begin);
  std::string line = source.text.substr(begin, end == std::string::npos ? end : end - begin);
  std::size_t at = static_cast<std::size_t>(column) - begin;
  // of a line that fills a screen, the part around the column
  constexpr std::size_t kShown = 200;
  if (line.size() > 2 * kShown) {
    const std::size_t first = at > kShown ? at - kShown : 0;
    line = (first > 0 ? "..." : "") + line.substr(first, 2 * kShown) +
           (first + 2 * kShown < line.size() ? "..." : "");
    at -= first > 0 ? first - 3 : 0;
  }
  throw InputError(source.where, source.key, found,
                   allowed + "\n    " + line + "\n    " + std::string(at, ' ') + "^");
}

std::string Syntax::canonical() const {
  const auto list = [&](const char* open, const char* close) {
    std::string result = open;
    for (std::size_t i = 0; i < children.size(); ++i) {
      result += i > 0 ? "," : "";
      if (i < parameters.size() && !parameters[i].empty()) result += parameters[i] + "=";
      result += children[i]->canonical();
    }
    return result + close;
  };
  switch (kind) {
    case Kind::number: {
      char buffer[32];
      const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
      return std::string(buffer, end);
    }
    case Kind::name:
      return text;
    case Kind::element: {
      std::string result = children[0]->canonical() + "[";
      for (std::size_t i = 0; i < items.size(); ++i) {
        const IndexItem& item = items[i];
        if (i > 0) result += ",";
        if (item.kind == IndexItem::Kind::name) result += "'" + item.name + "'";
        if (item.kind != IndexItem::Kind::name) result += std::to_string(item.first);
        if (item.kind == IndexItem::Kind::range)
          result += ":" + (item.last ? std::to_string(*item.last) : "") + ":" + std::to_string(item.step);
      }
      return result + "]";
    }
    case Kind::member:
      return children[0]->canonical() + "." + text;
    case Kind::unary:
      return "(" + text + children[0]->canonical() + ")";
    case Kind::binary:
      return "(" + children[0]->canonical() + text + children[1]->canonical() + ")";
    case Kind::conditional:
      return "(" + children[0]->canonical() + "?" + children[1]->canonical() + ":" +
             children[2]->canonical() + ")";
    case Kind::call:
      return text + list("(", ")");
    case Kind::vector:
      return list("[", "]");
    case Kind::text:
      return "'" + text + "'";
  }
  return "";
}

namespace {

// Words and signs of other languages, and how they are written here.
struct ForeignSpelling {
  std::string_view word, here;
};
constexpr ForeignSpelling kForeignSpellings[] = {
    {"and", "'and' is written a && b"},
    {"or", "'or' is written a || b"},
    {"not", "'not' is written !a"},
    {"if", "'x if c else y' is written c ? x : y"},
    {"else", "'x if c else y' is written c ? x : y"},
    {"is", "equality is a == b"},
    {"True", "true is 1"},
    {"False", "false is 0"},
    {"true", "true is 1"},
    {"false", "false is 0"},
    {"None", "there is no empty value"},
    {"**", "powers are written a ^ b"},
    {"//", "the whole part of a quotient is floor(a / b)"},
    {"%", "the remainder of a / b is mod(a, b)"},
    {"=", "equality is =="},
    {"&", "logic is && and ||"},
    {"|", "logic is && and ||"},
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class Parser {
 public:
  explicit Parser(const ExpressionSource& source) : source_(source), text_(source.text) {}

  std::unique_ptr<Syntax> parse() {
    skip_space();
    if (at_ == text_.size()) refuse(0, "empty expression", "write a number, a quantity or a formula");
    auto result = conditional();
    if (at_ < text_.size()) unexpected("an operator or the end");
    return result;
  }

 private:
  using Tree = std::unique_ptr<Syntax>;

  [[noreturn]] void refuse(std::size_t column, const std::string& found, const std::string& allowed) const {
    refuse_expression(source_, static_cast<int>(column), found, allowed);
  }

  // The word that stands at the cursor, or the sign, or "" at the end.
  std::string_view word_here() const {
    const std::string_view rest = std::string_view(text_).substr(at_);
    std::size_t length = 0;
    while (length < rest.size() && is_name_character(rest[length])) ++length;
    if (length > 0) return rest.substr(0, length);
    const bool twice = rest.size() > 1 && rest[0] == rest[1] && (rest[0] == '*' || rest[0] == '/');
    return rest.substr(0, twice ? 2 : 1);
  }

  static const ForeignSpelling* foreign(std::string_view word) {
    for (const ForeignSpelling& spelling : kForeignSpellings)
      if (spelling.word == word) return &spelling;
    return nullptr;
  }

  [[noreturn]] void unexpected(const std::string& expected) const {
    const std::string word(word_here());
    const ForeignSpelling* const spelling = foreign(word);
    refuse(at_, word.empty() ? "unexpected end of the expression" : "unexpected '" + word + "'",
           spelling ? std::string(spelling->here) : "expected " + expected);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  // Takes the token if the text continues with it.
  bool take(const char* token) {
    const std::string_view expected(token);
    if (text_.compare(at_, expected.size(), expected) != 0) return false;
    at_ += expected.size();
    skip_space();
    return true;
  }

  void expect(const char* token, const std::string& meaning) {
    if (!take(token)) unexpected(meaning);
  }

  template <class... Children>
  Tree make(Syntax::Kind kind, std::size_t column, std::string text, Children... children) {
    // sums and chains of indices are as deep as they are long
    if (++size_ > 10000)
      refuse(column, "an expression of more than 10000 names, numbers and operators", "use definitions");
    Tree tree = std::make_unique<Syntax>();
    tree->kind = kind;
    tree->column = static_cast<int>(column);
    tree->text = std::move(text);
    (tree->children.push_back(std::move(children)), ...);
    return tree;
  }

  Tree conditional() {
    const Depth depth(*this);
    Tree condition = any();
    const std::size_t column = at_;
    if (!take("?")) return condition;
    Tree yes = conditional();
    expect(":", "':' of the conditional a ? b : c");
    Tree no = conditional();
    return make(Syntax::Kind::conditional, column, "?", std::move(condition), std::move(yes), std::move(no));
  }

  Tree any() {
    Tree left = all();
    for (std::size_t column = at_; take("||"); column = at_)
      left = make(Syntax::Kind::binary, column, "||", std::move(left), all());
    return left;
  }

  Tree all() {
    Tree left = comparison();
    for (std::size_t column = at_; take("&&"); column = at_)
      left = make(Syntax::Kind::binary, column, "&&", std::move(left), comparison());
    return left;
  }

  // The comparison operator that stands here, or "".
  std::string comparison_operator() {
    for (const char* token : {"<=", ">=", "==", "!=", "<", ">"})
      if (take(token)) return token;
    return "";
  }

  Tree comparison() {
    Tree left = sum();
    const std::size_t column = at_;
    const std::string token = comparison_operator();
    if (token.empty()) return left;
    Tree result = make(Syntax::Kind::binary, column, token, std::move(left), sum());
    const std::size_t second = at_;
    if (!comparison_operator().empty()) refuse(second, "comparisons do not chain", "write a < b && b < c");
    return result;
  }

  Tree sum() {
    Tree left = product();
    while (true) {
      const std::size_t column = at_;
      if (take("+"))
        left = make(Syntax::Kind::binary, column, "+", std::move(left), product());
      else if (take("-"))
        left = make(Syntax::Kind::binary, column, "-", std::move(left), product());
      else
        return left;
    }
  }

  Tree product() {
    Tree left = sign();
    while (true) {
      const std::size_t column = at_;
      if (const std::string_view sign = word_here(); sign == "**" || sign == "//") return left;
      if (take("*"))
        left = make(Syntax::Kind::binary, column, "*", std::move(left), sign());
      else if (take("/"))
        left = make(Syntax::Kind::binary, column, "/", std::move(left), sign());
      else
        return left;
    }
  }

  Tree sign() {
    const Depth depth(*this);
    const std::size_t column = at_;
    if (take("-")) return make(Syntax::Kind::unary, column, "-", sign());
    if (take("+")) return sign();
    if (text_.compare(at_, 2, "!=") != 0 && take("!")) return make(Syntax::Kind::unary, column, "!", sign());
    return power();
  }

  Tree power() {
    Tree base = element();
    const std::size_t column = at_;
    if (!take("^")) return base;
    return make(Syntax::Kind::binary, column, "^", std::move(base), sign());
  }

  Tree element() {
    Tree tree = primary();
    while (true) {
      const std::size_t column = at_;
      if (take("[")) {
        Tree index = make(Syntax::Kind::element, column, "[", std::move(tree));
        do index->items.push_back(index_item());
        while (take(","));
        expect("]", "',' or ']'");
        tree = std::move(index);
      } else if (take(".")) {
        const std::size_t name_column = at_;
        const std::string member = name();
        if (member.empty()) unexpected("a component: .x .y .z or .w");
        if (at_ < text_.size() && text_[at_] == '(')
          refuse(name_column, "'." + member + "(' calls a function of something",
                 "functions stand alone, as in norm(x); 'maniple schema functions' lists them");
        tree = make(Syntax::Kind::member, name_column, member, std::move(tree));
      } else {
        return tree;
      }
    }
  }

  static bool is_index_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '/' || c == '.';
  }

  bool at_quote() const { return at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'); }

  // The text between the quotes that begin here.
  std::string quoted() {
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string::npos) refuse(at_, "quoted name without an end", "close it with the same quote");
    const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.empty()) refuse(at_, "empty name", "the name of an element");
    at_ = end + 1;
    skip_space();
    return inside;
  }

  IndexItem index_item() {
    IndexItem item;
    item.column = static_cast<int>(at_);
    const std::size_t begin = at_;
    if (at_quote()) {
      item.kind = IndexItem::Kind::name;
      item.name = quoted();
      return item;
    }
    while (at_ < text_.size() && is_index_character(text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    skip_space();
    const bool open = word.empty() && at_ < text_.size() && text_[at_] == ':';
    if (word.empty() && !open) unexpected("a number, a range first:last:step or the name of an element");
    if (word.find_first_not_of("0123456789") != std::string::npos) {
      item.kind = IndexItem::Kind::name;
      item.name = word;
      return item;
    }
    item.first = word.empty() ? 0 : element_number(word, begin);
    if (!take(":")) return item;
    item.kind = IndexItem::Kind::range;
    const std::size_t second = at_;
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      item.last = number_of_range();
      if (*item.last <= item.first)
        refuse(second, "empty range", "first:last takes elements first to last - 1");
    }
    if (!take(":")) return item;
    const std::size_t third = at_;
    item.step = number_of_range();
    if (item.step < 1) refuse(third, "a range with step 0", "first:last:step takes every step-th element");
    return item;
  }

  // The digits that stand here.
  int number_of_range() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    if (at_ == begin) unexpected("a number: first:last:step takes every step-th element below last");
    const int number = element_number(text_.substr(begin, at_ - begin), begin);
    skip_space();
    return number;
  }

  int element_number(const std::string& digits, std::size_t column) const {
    if (digits.size() > 6) refuse(column, "element " + digits + " is out of range", "elements count from 0");
    return std::atoi(digits.c_str());
  }

  std::string name() {
    const std::size_t begin = at_;
    if (at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    const std::string result = text_.substr(begin, at_ - begin);
    skip_space();
    return result;
  }

  Tree primary() {
    const std::size_t column = at_;
    if (take("(")) {
      Tree inside = conditional();
      expect(")", "')'");
      return inside;
    }
    if (take("[")) {
      Tree vector = make(Syntax::Kind::vector, column, "[");
      do vector->children.push_back(conditional());
      while (take(","));
      expect("]", "',' or ']'");
      return vector;
    }
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.'))
      return number();
    if (at_quote()) return make(Syntax::Kind::text, column, quoted());
    if (foreign(word_here())) unexpected("a number, a name or '('");
    const std::string word = name();
    if (word.empty()) unexpected("a number, a name or '('");
    if (!take("(")) return make(Syntax::Kind::name, column, word);
    Tree call = make(Syntax::Kind::call, column, word);
    if (take(")")) return call;
    do {
      call->parameters.push_back(parameter());
      call->children.push_back(conditional());
    } while (take(","));
    expect(")", "',' or ')'");
    return call;
  }

  // The name of an argument that is given as `name = value`, or "".
  std::string parameter() {
    const std::size_t begin = at_;
    const std::string word = name();
    if (!word.empty() && text_.compare(at_, 2, "==") != 0 && take("=")) return word;
    at_ = begin;
    return "";
  }

  Tree number() {
    const std::size_t column = at_;
    double value = 0;
    const auto [end, failure] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failure != std::errc()) refuse(column, "not a number", "numbers look like 2, 0.5 or 1e-3");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && is_name_character(text_[at_]))
      refuse(at_, "a name right after a number", "multiplication is written a * b");
    skip_space();
    Tree tree = make(Syntax::Kind::number, column, "");
    tree->number = value;
    return tree;
  }

  // Refuses nesting that would exhaust the stack.
  struct Depth {
    explicit Depth(Parser& parser) : depth(parser.depth_) {
      if (++depth > 200) parser.refuse(parser.at_, "nested too deeply", "use definitions");
    }
    ~Depth() { --depth; }
    int& depth;
  };

  const ExpressionSource& source_;
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int size_ = 0;
};

}  // namespace

std::unique_ptr<Syntax> parse_expression(const ExpressionSource& source) {
  return Parser(source).parse();
}

}  // namespace maniple
