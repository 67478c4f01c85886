/* What std asks of an unwinder, for a program that ends where it panics.
 *
 * A std that comes ready for musl brings LLVM's libunwind; one built here has
 * none. With panic=abort only backtraces would use it, and a program without
 * symbols has none to show: they are empty. All else is never called, since
 * nothing unwinds. (Itanium C++ ABI: Exception Handling, level I.)
 */
enum { END_OF_STACK = 5 };

int _Unwind_Backtrace(void *visit, void *argument)
{
    (void)visit;
    (void)argument;
    return END_OF_STACK;
}

#define NEVER_CALLED(name) void name(void) { __builtin_trap(); }

NEVER_CALLED(_Unwind_DeleteException)
NEVER_CALLED(_Unwind_FindEnclosingFunction)
NEVER_CALLED(_Unwind_GetCFA)
NEVER_CALLED(_Unwind_GetDataRelBase)
NEVER_CALLED(_Unwind_GetIP)
NEVER_CALLED(_Unwind_GetIPInfo)
NEVER_CALLED(_Unwind_GetLanguageSpecificData)
NEVER_CALLED(_Unwind_GetRegionStart)
NEVER_CALLED(_Unwind_GetTextRelBase)
NEVER_CALLED(_Unwind_RaiseException)
NEVER_CALLED(_Unwind_Resume)
NEVER_CALLED(_Unwind_SetGR)
NEVER_CALLED(_Unwind_SetIP)
