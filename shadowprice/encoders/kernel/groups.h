/* The graphs of a session; those before the collection come first. */

#define GROUPS 4
#define BEFORE 2
