grammar Mapping;

// The mapping language. One rule for each construct; what a construct means
// stands in README.md. Operations are ordinary names: a new one needs no new
// syntax.

spec : 'mbspec' version=INT item* EOF ;

item
    : 'use' file=STRING                                            # Use
    | 'model' id '{' modelField* '}'                               # ModelBlock
    | 'let' id '=' expression                                      # Let
    | 'def' id '(' parameters? ')' '=' expression                  # Def
    | 'block' id ('(' parameters? ')')? body                       # Block
    | 'config' '{' configField* '}'                                # ConfigBlock
    | statement                                                    # Top
    ;

parameters : id (',' id)* ;

modelField
    : 'hf' STRING+                                                 # HfField
    | 'type' STRING+                                               # TypeField
    | 'megatron' STRING                                            # MegatronField
    | 'layers' count=expression (stacked='stacked' ('if' condition=expression)?)? # LayersField
    | 'experts' expression                                         # ExpertsField
    | 'vocab' size=expression 'multiple' multiple=expression       # VocabField
    | 'pattern' id 'cut_before' STRING                             # PatternField
    ;

configField
    : 'ignore' name (',' name)*                                    # ConfigIgnore
    | 'write' name (',' name)*                                     # ConfigWrite
    | id '=' expression                                            # ConfigAssign
    ;

body : '{' statement* '}' ;

statement
    : left=operand '<-' right=operand attribute*                   # RuleStatement
    | left=scopeName '<-' right=scopeName body                     # Scope
    | 'for' id 'in' from=expression '..' to=expression body        # For
    | 'if' branch ('else' 'if' branch)* ('else' otherwise=body)?   # If
    | 'match' expression '{' matchCase* '}'                        # Match
    | 'either' form ('or' form)+                                   # Either
    | 'tied' side=('hf' | 'megatron') copy=name optional='?'? 'to' owner=name attribute* # Tied
    | 'ignore' pattern (',' pattern)*                              # Ignore
    | 'extra_state' name (',' name)* ('per' 'expert' '(' expression ')')? # ExtraState
    | id ('(' arguments? ')')?                                     # BlockCall
    ;

branch : expression body ;
form : id body ;
matchCase : STRING ':' (body | statement) ;
pattern : name optional='?'? ;

scopeName : stay='.' | name ;
operand : name optional='?'? | call ;

attribute : key=id '=' value=attributeValue ;
attributeValue
    : '(' condition=expression '?' yes=attributeWord ':' no=attributeWord ')'
    | attributeWord
    ;
attributeWord : id ('(' arguments? ')')? | INT ;

call : id '(' (variable=id 'in' from=expression '..' to=expression ':')? arguments? ')' ;
arguments : argument (',' argument)* ;
argument : (key=id '=')? value=expression optional='?'? (':' extent=expression)? ;

expression
    : literal                                                      # LiteralValue
    | call                                                         # CallValue
    | name                                                         # NameValue
    | '[' 'for' id 'in' from=expression '..' to=expression ':' element=expression ']' # Comprehension
    | '[' (listItem (',' listItem)*)? ']'                          # List
    | '(' expression ')'                                           # Group
    | base=expression '[' index=expression ']'                     # Index
    | op=('-' | '!') expression                              # Unary
    | left=expression op=('*' | '/' | '%') right=expression  # Binary
    | left=expression op=('+' | '-') right=expression        # Binary
    | left=expression op=('<' | '<=' | '>' | '>=' | '==' | '!=' | 'in') right=expression # Binary
    | left=expression op='&&' right=expression               # Binary
    | left=expression op='||' right=expression               # Binary
    | <assoc=right> left=expression op='??' right=expression # Binary
    | <assoc=right> condition=expression '?' yes=expression ':' no=expression # Ternary
    ;

// Entry point for the text of a name's hole.
hole : expression EOF ;

listItem : rest='...' | expression ;
literal : INT | FLOAT | STRING | 'true' | 'false' | 'null' ;

// Words that have a meaning in one place only stay free as names elsewhere.
id : PATH | softWord ;
name : PATH | softWord ;
softWord
    : 'model' | 'config' | 'type' | 'hf' | 'megatron' | 'layers' | 'stacked' | 'experts' | 'expert'
    | 'vocab' | 'multiple' | 'pattern' | 'cut_before' | 'write'
    ;

INT : [0-9]+ ;
FLOAT : [0-9]+ '.' [0-9]+ EXPONENT? | [0-9]+ EXPONENT ;
STRING : '"' ~["\r\n]* '"' ;

// A dotted name with its holes, as one token: `layers.{2*i}.weight{e}`,
// `visual.**`, `^lm_head.weight`. No blank may stand before a hole's brace.
PATH : '^'? START CHAR* ('.' SEGMENT)* ;

// Kept for the formatter; the parser does not see it.
COMMENT : '#' ~[\r\n]* -> channel(HIDDEN) ;
BLANK : [ \t\r\n]+ -> skip ;
UNKNOWN : . ;

fragment EXPONENT : [eE] [+-]? [0-9]+ ;
fragment START : [A-Za-z_] ;
fragment CHAR : [A-Za-z0-9_] | HOLE ;
fragment HOLE : '{' ~[{}\r\n]* '}' ;
fragment SEGMENT : CHAR+ | '*' '*'? ;
